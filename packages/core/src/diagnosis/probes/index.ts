export { customCommand } from './custom-command.ts';
export { docker } from './docker.ts';
export { kubernetes, type KubernetesOptions } from './kubernetes.ts';
export { probeOwner } from './probe-owner.ts';
export { sameHost } from './same-host.ts';
export { systemd } from './systemd.ts';
export type { ToolOptions } from './tool.ts';

// What pictures are made of.
export const WIDTH = 820;

/** Okabe and Ito's colours, which people tell apart who see few; each kind is also named at its bar, each line at its end. */
export const STYLE = `
text { font: 13px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; fill: #1f2328 }
.on { paint-order: stroke; stroke: #ffffff; stroke-width: 4px; stroke-linejoin: round }
.back { fill: #ffffff } .title { font-size: 16px; font-weight: 600 } .head { font-weight: 600 } .small { font-size: 11px; fill: #57606a }
.grid { stroke: #d0d7de; stroke-width: 1 } .line { stroke: #1f2328; stroke-width: 1.5 }
.floor { fill: #8c959f } .ours { fill: #0072b2 } .peer { fill: #e69f00 } .other { fill: #cc79a7 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .on { stroke: #0d1117 } .back { fill: #0d1117 } .small { fill: #9198a1 } .grid { stroke: #30363d } .line { stroke: #e6edf3 }
.floor { fill: #9198a1 } .ours { fill: #56b4e9 }
}`;

export const CURVES = `
.curve { fill: none; stroke-width: 2; stroke-linejoin: round }
.c0 { stroke: #0072b2 } .c1 { stroke: #e69f00; stroke-dasharray: 7 3 } .c2 { stroke: #009e73; stroke-dasharray: 2 3 }
.c3 { stroke: #cc79a7; stroke-dasharray: 9 3 2 3 } .c4 { stroke: #8c959f; stroke-dasharray: 4 4 }
.d0 { fill: #0072b2 } .d1 { fill: #e69f00 } .d2 { fill: #009e73 } .d3 { fill: #cc79a7 } .d4 { fill: #8c959f }
@media (prefers-color-scheme: dark) { .c0 { stroke: #56b4e9 } .d0 { fill: #56b4e9 } }`;

/** 1, 2 or 5 times a power of ten. */
export function niceStep(least: number): number {
  const power = 10 ** Math.floor(Math.log10(least));
  return ([1, 2, 5, 10].find((factor) => factor * power >= least) ?? 10) * power;
}

export const round = (value: number): number => Math.round(value * 10) / 10;

export const escaped = (value: string): string =>
  value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

export function text(x: number, y: number, value: string, style = '', anchor = 'start'): string {
  const kind = style === '' ? '' : ` class="${style}"`;
  return `<text${kind} x="${round(x)}" y="${round(y)}" text-anchor="${anchor}">${escaped(value)}</text>`;
}

export { fencedFetch, type FencedFetchOptions } from './fetch.ts';
export { httpFence, HttpFence, type HttpFenceOptions } from './fence.ts';
export { fencingHeaders, type FencingHeadersOptions } from './headers.ts';
export { parseFencing, type HeadersLike, type ParseOptions } from './parser.ts';
export { fenced, type FencedOptions } from './fenced.ts';
export { fenceRoute, type FenceRouteOptions } from './route.ts';
export {
  expressFenceRoute,
  expressFencing,
  fencingErrors,
  type ExpressFencing,
  type ExpressNext,
  type ExpressRequest,
  type ExpressResponse,
  type ExpressRouteRequest,
} from './express.ts';
export {
  fastifyFenceRoute,
  fastifyFencing,
  type FastifyFencing,
  type FastifyReply,
  type FastifyRequest,
  type FastifyScope,
} from './fastify.ts';
export {
  signer,
  verifier,
  type Sign,
  type SignerOptions,
  type SigningKeys,
  type Verify,
  type VerifierOptions,
} from './signature.ts';

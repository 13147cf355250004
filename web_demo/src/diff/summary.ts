// Says in one sentence what differs, and what that knowledge rests on.
import { formatExact } from '../ui/format'
import type { Change } from './differences'
import type { Ranking } from './ranking'

/** What the equality of tensors rests on: hashes, as recorded or as verified in both files, or reading alone. */
export type Trust = 'recorded' | 'verified' | 'none'

// In the order in which the sentence counts them. `data` and `unknown` come from the ranking.
export const WORDS = {
  only_in_a: 'removed', only_in_b: 'added', data: 'changed', dtype: 'other type', shape: 'other shape', kind: 'other kind',
  value: 'other value', label: 'other label', axis_names: 'other axis names', key_order: 'other order', tie: 'other ties',
  unknown: 'not compared', damaged: 'damaged',
} as const

/**
 * '1 removed, 2 changed; 5 tensors equal by recorded hashes, not verified.'
 * @param counts the number of each kind of difference
 * @param equalUnread tensors that are equal by their hashes, or have no bytes
 */
export function summaryOf(counts: ReadonlyMap<Change, number>, ranking: Ranking, equalUnread: number, trust: Trust): string {
  const unlisted = unlistedOf(counts, ranking)
  const now = new Map(counts).set('data', ranking.changed + unlisted.data).set('unknown', ranking.unknown + unlisted.unknown)
  const parts = (Object.keys(WORDS) as Change[]).filter((change) => now.get(change)).map((change) => `${formatExact(now.get(change)!)} ${WORDS[change]}`)
  return `${parts.length === 0 ? 'No differences: ' : `${parts.join(', ')}; `}${equalText(ranking.equal, equalUnread, trust)}.`
}

function equalText(read: number, unread: number, trust: Trust): string {
  if (trust === 'none') return read > 0 ? `${tensors(read + unread)} equal in every element` : `${tensors(unread)} equal`
  if (unread === 0) return `${tensors(read)} equal`
  const basis = `${tensors(unread)} equal${trust === 'verified' ? ', verified in both' : ' by recorded hashes, not verified'}`
  return read > 0 ? `${tensors(read)} equal in every element, ${basis}` : basis
}

/** Differences in elements beyond those that are listed, and so in no ranking. */
function unlistedOf(counts: ReadonlyMap<Change, number>, { changed, equal, unknown }: Ranking): { data: number; unknown: number } {
  const left = (counts.get('data') ?? 0) + (counts.get('unknown') ?? 0) - changed - equal - unknown
  return counts.has('unknown') ? { data: 0, unknown: left } : { data: left, unknown: 0 }
}

function tensors(count: number): string {
  return `${formatExact(count)} ${count === 1 ? 'tensor' : 'tensors'}`
}

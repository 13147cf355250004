// Stores settings between visits. Browsers may refuse to store; then nothing is remembered.

const RECENT = 'espalier.recent'
const MOST_RECENT = 10

/** The text stored under a name. */
export function recall(name: string): string | undefined {
  try {
    return localStorage.getItem(name) ?? undefined
  } catch {
    return undefined
  }
}

/** Stores a text under a name; undefined deletes it. */
export function remember(name: string, text: string | undefined): void {
  try {
    if (text === undefined) localStorage.removeItem(name)
    else localStorage.setItem(name, text)
  } catch {
    // A page without storage still works.
  }
}

/** Recently opened addresses, the latest first. */
export function recentAddresses(): readonly string[] {
  try {
    const list: unknown = JSON.parse(recall(RECENT) ?? '[]')
    return Array.isArray(list) ? list.filter((item) => typeof item === 'string') : []
  } catch {
    return []
  }
}

/** Puts an address in front of the recent ones. */
export function rememberAddress(address: string): void {
  const others = recentAddresses().filter((other) => other !== address)
  remember(RECENT, JSON.stringify([address, ...others].slice(0, MOST_RECENT)))
}

/** Forgets all recent addresses. */
export function forgetAddresses(): void {
  remember(RECENT, undefined)
}

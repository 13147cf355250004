// Natural order of names: layer 2 before layer 10.

/** A text that sorts as the name does in natural order: each number is preceded by how many digits it has. */
export function naturalKey(name: string): string {
  return name.replace(/\d+/g, (digits) => {
    const number = digits.replace(/^0+(?=\d)/, '')
    // From '0' on, so that numbers stay between punctuation and letters.
    return String.fromCharCode(48 + Math.min(number.length, 9)) + (number.length < 9 ? number : String(number.length).padStart(6, '0') + number)
  })
}

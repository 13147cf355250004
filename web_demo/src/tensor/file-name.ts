// Names for new files, from text that is not trusted.

/**
 * Makes a file name of a text: at most 100 letters, digits and "._-", or nothing. The name does not begin with a dot, which
 * would hide the file, or with a dash, which would make it an option.
 */
export function fileName(text: string): string {
  // The beginning is mended last, because cutting makes a new one.
  return text.replace(/[^A-Za-z0-9._-]+/g, '_').slice(-100).replace(/^[._-]+|_+$/g, '')
}

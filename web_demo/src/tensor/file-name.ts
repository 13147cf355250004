// Makes names for new files from untrusted text.

/**
 * Makes a file name from a text: at most 100 letters, digits and "._-", perhaps empty. It does not begin with a dot,
 * which would hide the file, or with a dash, which would make it an option.
 */
export function fileName(text: string): string {
  // Fix the beginning last, because cutting changes it.
  return text.replace(/[^A-Za-z0-9._-]+/g, '_').slice(-100).replace(/^[._-]+|_+$/g, '')
}

// Saves charts: the SVG as it is drawn, as a PNG, or its numbers as CSV.

/** Properties that style sheets set, and that a file must bring along. */
const STYLED = ['fill', 'fill-opacity', 'stroke', 'stroke-width', 'stroke-dasharray', 'stroke-opacity', 'opacity', 'font-family', 'font-size', 'font-weight', 'text-anchor', 'display', 'visibility']

/** A chart on the page. */
export interface Chart {
  readonly svg: SVGSVGElement
  /** A picture that the chart has in place of its element with the attribute data-picture. */
  readonly canvas?: HTMLCanvasElement | undefined
}

/** The text of a chart as an SVG file, which looks the same without the page. Elements with data-transient are left out. */
export function svgText({ svg, canvas }: Chart): string {
  const copy = svg.cloneNode(true) as SVGSVGElement
  const { width, height } = sizeOf(svg)
  const originals = [svg, ...svg.querySelectorAll('*')]
  const copies = [copy, ...copy.querySelectorAll('*')]
  originals.forEach((original, i) => {
    const style = getComputedStyle(original)
    for (const name of STYLED) copies[i]!.setAttribute(name, style.getPropertyValue(name))
    copies[i]!.removeAttribute('class')
  })
  copy.querySelectorAll('[data-transient]').forEach((element) => element.remove())
  for (const [name, value] of Object.entries({ xmlns: 'http://www.w3.org/2000/svg', width, height, viewBox: svg.getAttribute('viewBox') ?? `0 0 ${width} ${height}` })) copy.setAttribute(name, String(value))
  for (const name of ['tabindex', 'aria-hidden']) copy.removeAttribute(name)
  const paper = document.createElementNS('http://www.w3.org/2000/svg', 'rect')
  for (const [name, value] of Object.entries({ width: '100%', height: '100%', fill: getComputedStyle(document.documentElement).backgroundColor })) paper.setAttribute(name, value)
  copy.prepend(paper)
  const place = copy.querySelector('[data-picture]')
  if (canvas && place) {
    const image = document.createElementNS('http://www.w3.org/2000/svg', 'image')
    for (const name of ['x', 'y', 'width', 'height']) image.setAttribute(name, place.getAttribute(name)!)
    image.setAttribute('preserveAspectRatio', 'none')
    image.setAttribute('href', canvas.toDataURL())
    place.before(image)
  }
  return new XMLSerializer().serializeToString(copy)
}

/** Saves a chart as an SVG file. @param name the file's name without its ending */
export function saveSvg(chart: Chart, name: string): void {
  save(new Blob([svgText(chart)], { type: 'image/svg+xml' }), `${name}.svg`)
}

/** Saves a chart as a PNG with two pixels for each of the page's. @throws Error if the browser cannot draw it */
export async function savePng(chart: Chart, name: string): Promise<void> {
  const address = URL.createObjectURL(new Blob([svgText(chart)], { type: 'image/svg+xml' }))
  try {
    const image = new Image()
    await new Promise((resolve, reject) => {
      image.onload = resolve
      image.onerror = () => reject(new Error('the browser cannot draw the chart as a picture'))
      image.src = address
    })
    const { width, height } = sizeOf(chart.svg)
    const canvas = Object.assign(document.createElement('canvas'), { width: 2 * width, height: 2 * height })
    canvas.getContext('2d')!.drawImage(image, 0, 0, canvas.width, canvas.height)
    const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve))
    if (!blob) throw new Error('the browser cannot save the chart as a picture')
    save(blob, `${name}.png`)
  } finally {
    URL.revokeObjectURL(address)
  }
}

/** Saves numbers as CSV. */
export function saveCsv(text: string, name: string): void {
  save(new Blob([text], { type: 'text/csv' }), `${name}.csv`)
}

function save(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob)
  Object.assign(document.createElement('a'), { href: address, download: name }).click()
  // Some browsers start reading it only later.
  setTimeout(() => URL.revokeObjectURL(address), 60_000)
}

function sizeOf(svg: SVGSVGElement): { width: number; height: number } {
  const { width, height } = svg.getBoundingClientRect()
  return { width: Math.round(width), height: Math.round(height) }
}

// Elements. Text always becomes a text node, never HTML, whatever it contains.
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag)
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value)
    else if (value === true) element.setAttribute(name, '')
    else if (value !== false && value != null) element.setAttribute(name, value)
  }
  element.append(...children.flat().filter((child) => child != null && child !== false))
  return element
}

// Sets the text of an element unless it is the same, because screen readers announce changes.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text
}

const svgNamespace = 'http://www.w3.org/2000/svg'

// The last values as a line. Returns { element, push(value) }.
export function sparkline(label, length = 60) {
  const line = document.createElementNS(svgNamespace, 'polyline')
  const svg = document.createElementNS(svgNamespace, 'svg')
  const values = []
  svg.setAttribute('viewBox', `0 0 ${length - 1} 20`)
  svg.setAttribute('preserveAspectRatio', 'none')
  svg.setAttribute('class', 'sparkline')
  svg.setAttribute('role', 'img')
  svg.setAttribute('aria-label', label)
  svg.append(line)
  return {
    element: svg,
    push(value) {
      values.push(value)
      if (values.length > length) values.shift()
      const most = Math.max(...values, 1e-9)
      const at = (v, i) => `${length - values.length + i},${(19 - (18 * v) / most).toFixed(1)}`
      line.setAttribute('points', values.map(at).join(' '))
    },
  }
}

// Parts of a whole, { kind, value }, side by side in the colours of console.css. A single background, so that changes
// do not move the layout. `element`: the existing bar.
export function bar(label, parts, element) {
  const drawn = element ?? h('div', { class: 'bar', role: 'img' })
  const whole = parts.reduce((sum, part) => sum + Math.max(part.value, 0), 0)
  let at = 0
  const stops = parts.map(({ kind, value }) => {
    const from = at
    at += whole > 0 ? (100 * Math.max(value, 0)) / whole : 0
    return `var(--${kind}) ${from}% ${at}%`
  })
  drawn.style.setProperty('background', whole > 0 ? `linear-gradient(to right, ${stops.join(', ')})` : '')
  drawn.setAttribute('aria-label', `${label}: ${parts.map((part) => `${number(part.value)} ${part.kind}`).join(', ')}`)
  return drawn
}

// A table that keeps the row of each key, so that the focus stays and nothing jumps. columns: { title, kind,
// cell(row) } where a cell is text or an element; key(row) is text. Returns { element, update(rows) }.
export function table(caption, columns, key, empty) {
  const body = h('tbody')
  const none = h('p', { class: 'empty', hidden: true }, empty)
  const head = h('tr', {}, columns.map((column) => h('th', { scope: 'col', class: column.kind }, column.title)))
  const element = h('div', { class: 'table', tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', {}, h('caption', { class: 'hidden' }, caption), h('thead', {}, head), body), none)
  const kept = new Map()

  function rowOf(row) {
    const k = key(row)
    let tr = kept.get(k)
    if (!tr) {
      tr = h('tr', {}, columns.map((column) => h('td', { class: column.kind })))
      kept.set(k, tr)
    }
    columns.forEach((column, i) => {
      const cell = column.cell(row, tr.children[i].firstElementChild)
      const td = tr.children[i]
      if (!(cell instanceof Element)) setText(td, String(cell ?? ''))
      else if (td.firstElementChild !== cell) td.replaceChildren(cell)
    })
    return tr
  }

  return {
    element,
    update(rows) {
      const wanted = rows.map(rowOf)
      const keys = new Set(rows.map(key))
      for (const [k, tr] of kept) {
        if (keys.has(k)) continue
        tr.remove()
        kept.delete(k)
      }
      wanted.forEach((tr, i) => {
        if (body.children[i] !== tr) body.insertBefore(tr, body.children[i] ?? null)
      })
      none.hidden = rows.length > 0
    },
  }
}

// A link whose address may change. `element`: the existing link.
export function link(text, screen, parameters, element) {
  const a = element ?? h('a', {}, text)
  a.href = `#/${screen}?${new URLSearchParams(parameters)}`
  return a
}

// A text for a shell, or an answer, verbatim.
export function code(label) {
  return h('pre', { class: 'command', tabindex: 0, role: 'group', 'aria-label': label })
}

// Names and values. Returns { element, set(name, text) }.
export function facts(names) {
  const values = new Map(names.map((name) => [name, h('dd', {}, '–')]))
  const element = h('dl', { class: 'facts' }, names.map((name) => h('div', {}, h('dt', {}, name), values.get(name))))
  return {
    element,
    set(name, text) {
      setText(values.get(name), String(text))
    },
  }
}

// A labelled input. Returns the label; its control is label.control.
export function field(title, control, hint) {
  return h('label', { class: 'field' }, h('span', {}, title), control, hint ? h('small', {}, hint) : null)
}

export function number(value) {
  return Number(value ?? 0).toLocaleString('en', { maximumFractionDigits: 1 })
}

// Milliseconds in a readable unit.
export function time(ms) {
  const n = Number(ms ?? 0)
  if (n < 1000) return `${Math.round(n)} ms`
  if (n < 60000) return `${(n / 1000).toFixed(1)} s`
  if (n < 3600000) return `${Math.floor(n / 60000)} min ${Math.floor((n % 60000) / 1000)} s`
  if (n < 86400000) return `${Math.floor(n / 3600000)} h ${Math.floor((n % 3600000) / 60000)} min`
  return `${Math.floor(n / 86400000)} d ${Math.floor((n % 86400000) / 3600000)} h`
}

export function bytes(value) {
  const n = Number(value ?? 0)
  const power = n < 1024 ? 0 : Math.min(4, Math.floor(Math.log2(n) / 10))
  return `${(n / 1024 ** power).toLocaleString('en', { maximumFractionDigits: 1 })} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][power]}`
}

export function clock(ms) {
  const at = new Date(Number(ms))
  return `${at.toLocaleTimeString('en-GB')}.${String(at.getMilliseconds()).padStart(3, '0')}`
}

// "EXCLUSIVE" of "LOCK_MODE_EXCLUSIVE", in small letters.
export function word(value, prefix) {
  return (value ?? '').replace(prefix, '').toLowerCase().replaceAll('_', ' ')
}

// Keeps the parameters of a screen in the address, without reopening the screen.
export function remember(screen, parameters) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value)).toString()
  history.replaceState(null, '', `#/${screen}${query && `?${query}`}`)
}

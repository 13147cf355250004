// What is wrong with the imports between the modules of a package. What is imported before a module runs must not come in a
// circle, and a path must not leave the package. `import()` comes later, because no module waits for it while it is loaded: it
// may name any module of the package. The tests of the packages call this, because they have the parser: TypeScript itself.
import { lstatSync, readdirSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'

// The text of each file below a folder, by its path there.
export function readModules(folder) {
  const paths = readdirSync(folder, { recursive: true }).filter((path) => lstatSync(join(folder, path)).isFile())
  return Object.fromEntries(paths.map((path) => [path, readFileSync(join(folder, path), 'utf8')]))
}

// The module of the package that a relative path names.
function resolve(modules, from, path) {
  const target = posix.join(posix.dirname(from), path)
  const stem = target.replace(/\.js$/, '')
  return [target.endsWith('.css') ? target : '', `${stem}.ts`, `${stem}.tsx`].find((name) => Object.hasOwn(modules, name))
}

// Calls `report(what, why)` for what is wrong in one module, and `imported(target)` for each module that it imports when it is loaded.
function visitModule(ts, modules, dependencies, path, report, imported) {
  const source = ts.createSourceFile(path, modules[path], ts.ScriptTarget.Latest, true)
  for (const reference of source.referencedFiles) report(reference.fileName, 'write import ... from')

  // `when` is 'load', 'later', or 'never' for types.
  const see = (specifier, when) => {
    if (specifier.startsWith('.')) {
      const target = resolve(modules, path, specifier)
      if (target === undefined) report(specifier, 'no module of this package')
      else if (when === 'load') imported(target)
    } else if (when !== 'never' && !dependencies.some((name) => specifier === name || specifier.startsWith(`${name}/`))) {
      report(specifier, 'no dependency of this package')
    }
  }
  const visit = (node, inFunction) => {
    if (ts.isImportDeclaration(node)) see(node.moduleSpecifier.text, node.importClause?.isTypeOnly ? 'never' : 'load')
    else if (ts.isExportDeclaration(node) && node.moduleSpecifier) see(node.moduleSpecifier.text, node.isTypeOnly ? 'never' : 'load')
    else if (ts.isImportTypeNode(node)) see(node.argument.literal.text, 'never')
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [name] = node.arguments
      if (ts.isStringLiteralLike(name)) see(name.text, 'later')
      // Bundlers leave a variable to the host.
      else if (!ts.isIdentifier(name)) report(name.getText(), 'import() takes a string, or a variable')
    } else if (ts.isExternalModuleReference(node)) report(node.getText(), 'write import ... from')
    else if (ts.isIdentifier(node) && /^(require|createRequire)$/.test(node.text)) report(node.text, 'write import ... from')
    else if (ts.isMetaProperty(node) && node.parent.getText() !== 'import.meta.url') report(node.parent.getText(), 'only import.meta.url is known')
    else if (!inFunction && (ts.isAwaitExpression(node) || node.kind === ts.SyntaxKind.AwaitKeyword)) {
      report(node.parent.getText(), 'a module that waits while it is loaded can wait for itself')
    }
    ts.forEachChild(node, (child) => visit(child, inFunction || (ts.isFunctionLike(node) && child === node.body)))
  }
  visit(source, false)
}

// The modules of one circle, or none.
function circleOf(graph) {
  const done = new Set()
  const follow = (module, way) => {
    if (way.includes(module)) return way.slice(way.indexOf(module))
    if (done.has(module)) return []
    for (const next of graph[module]) {
      const found = follow(next, [...way, module])
      if (found.length > 0) return found
    }
    done.add(module)
    return []
  }
  for (const module of Object.keys(graph)) {
    const found = follow(module, [])
    if (found.length > 0) return found
  }
  return []
}

// `ts` is TypeScript; `dependencies` are the packages that modules may import.
export function faults(ts, modules, dependencies) {
  const found = []
  const graph = {}
  for (const path of Object.keys(modules)) {
    graph[path] = new Set()
    if (path.endsWith('.css')) continue
    if (!/^[\w/-]+\.tsx?$/.test(path)) found.push(`${path}: a module is .ts or .tsx`)
    else visitModule(ts, modules, dependencies, path, (what, why) => found.push(`${path}: ${what}: ${why}`), (target) => graph[path].add(target))
  }
  const circle = circleOf(graph)
  return circle.length > 0 ? [...found, `a circle of imports: ${circle.join(', ')}`] : found
}

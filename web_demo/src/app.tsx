// The page: what is open, and the panes that show it.
export function App() {
  return <main>Drop a checkpoint here.</main>
}

export function DiffPane(props: any) { return <p>{String(props.file.name)}</p> }

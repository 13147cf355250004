export function VerifyPane(props: any) { return <p>{String(props.file.name)}</p> }

// The worker of the package, which crashes at the first chunk.
import '../../../dist/worker.js'

addEventListener('message', ({ data }) => {
  if (data.op === 'deliver') throw new Error('this worker crashes')
})

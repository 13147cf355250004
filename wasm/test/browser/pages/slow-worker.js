// The worker of the package, with a slow core.
import './slow-core.js'
import '../../../dist/worker.js'

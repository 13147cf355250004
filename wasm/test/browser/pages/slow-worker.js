// The worker of the package, with a slow decoder.
import './slow-decoder.js'
import '../../../dist/worker.js'

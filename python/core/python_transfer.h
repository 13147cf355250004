// Requests to web servers over connections that Python makes.
#ifndef ESPALIER_PYTHON_PYTHON_TRANSFER_H_
#define ESPALIER_PYTHON_PYTHON_TRANSFER_H_

#include <memory>

#include "http/transfer.h"

namespace espalier::python {

/// A transfer over an espalier._http.Connection: Python's sockets, TLS, certificates and proxies.
/// The bytes of requests and responses are ours (http/response_reader.h), because those of Python's
/// http.client have few limits. Call it without the GIL, as its functions.
std::unique_ptr<http::Transfer> make_python_transfer();

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_PYTHON_TRANSFER_H_

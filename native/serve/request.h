// What a browser asks: the head of an HTTP/1.1 request, taken apart.
#ifndef ESPALIER_SERVE_REQUEST_H_
#define ESPALIER_SERVE_REQUEST_H_

#include <string>
#include <string_view>

#include <tl/expected.hpp>

namespace espalier::serve {

/// The parts of a request that this server heeds. Texts are as they came, and nobody trusts them;
/// those of fields that were not sent are empty.
struct Request {
  std::string method;
  std::string target;  // visible ASCII characters
  std::string host;
  std::string range;
  std::string if_range;
  bool keep_alive = false;
};

/// The status of the response to a request that cannot be understood.
using BadStatus = int;

/// Parses a head: the request line and the fields, up to the empty line, which is included.
/// Stricter than it might be, for lenient readers are what smuggling of requests lives on: lines
/// end with CRLF, no field is folded, and those that matter come once. 400 for wrong syntax, 413
/// for a request with content, of which none needs any, 505 for versions other than 1.0 and 1.1.
tl::expected<Request, BadStatus> parse_request(std::string_view head);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_REQUEST_H_

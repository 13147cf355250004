// The parts of a request that this server uses.
#ifndef ESPALIER_SERVE_REQUEST_H_
#define ESPALIER_SERVE_REQUEST_H_

#include <string_view>

struct evhttp_request;

namespace espalier::serve {

/// Texts are unchanged and untrusted; those of missing fields are empty.
struct Request {
  bool is_head = false;  // otherwise GET; no other method arrives here
  std::string_view target;
  std::string_view host;
  std::string_view range;
  std::string_view if_range;
  /// The client accepts gzip.
  bool accepts_gzip = false;
  /// The request announces content; such requests are refused.
  bool has_content = false;
  /// One of the fields above came twice: another program that reads the request might use the other
  /// one.
  bool is_ambiguous = false;
};

/// Converts evhttp's request; valid as long as that is.
Request heed(evhttp_request* request);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_REQUEST_H_

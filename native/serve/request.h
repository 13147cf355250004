// What a browser asks, as far as this server heeds it.
#ifndef ESPALIER_SERVE_REQUEST_H_
#define ESPALIER_SERVE_REQUEST_H_

#include <string_view>

struct evhttp_request;

namespace espalier::serve {

/// Texts are as they came, and nobody trusts them; those of fields that were not sent are empty.
struct Request {
  bool is_head = false;  // or GET: others do not get here
  std::string_view target;
  std::string_view host;
  std::string_view range;
  std::string_view if_range;
  /// A gzipped answer is welcome.
  bool accepts_gzip = false;
  /// Content was announced, which no request needs that is answered.
  bool has_content = false;
  /// One of the fields above came twice, so that who else reads the request may heed the other.
  bool is_ambiguous = false;
};

/// What evhttp has parsed, valid as long as that is.
Request heed(evhttp_request* request);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_REQUEST_H_

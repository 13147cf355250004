#include "serve/request.h"

#include <algorithm>
#include <cstddef>

#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <event2/util.h>

namespace espalier::serve {
namespace {

/// Whether a list of codings contains gzip without a weight. A weight may be 0, so gzip with any
/// weight is ignored: browsers send none, and other clients can read the plain bytes.
bool names_gzip(std::string_view codings) {
  while (!codings.empty()) {
    const std::size_t comma = std::min(codings.find(','), codings.size());
    std::string_view coding = codings.substr(0, comma);
    codings.remove_prefix(std::min(comma + 1, codings.size()));
    while (coding.starts_with(' ')) coding.remove_prefix(1);
    while (coding.ends_with(' ')) coding.remove_suffix(1);
    if (coding == "gzip") return true;
  }
  return false;
}

}  // namespace

Request heed(evhttp_request* request) {
  Request result;
  result.is_head = evhttp_request_get_command(request) == EVHTTP_REQ_HEAD;
  result.target = evhttp_request_get_uri(request);
  const auto take = [&result](std::string_view value, std::string_view& place) {
    if (place.data() != nullptr) result.is_ambiguous = true;
    place = value;
  };
  // Not evhttp_find_header(), which finds only the first field of a name.
  const evkeyvalq* fields = evhttp_request_get_input_headers(request);
  for (const evkeyval* field = fields->tqh_first; field != nullptr; field = field->next.tqe_next) {
    const auto is = [field](const char* name) {
      return evutil_ascii_strcasecmp(field->key, name) == 0;
    };
    const std::string_view value = field->value;
    if (is("Host")) take(value, result.host);
    if (is("Range")) take(value, result.range);
    if (is("If-Range")) take(value, result.if_range);
    if (is("Accept-Encoding")) result.accepts_gzip = result.accepts_gzip || names_gzip(value);
    if (is("Transfer-Encoding")) result.has_content = true;
    if (is("Content-Length") && value != "0") result.has_content = true;
  }
  return result;
}

}  // namespace espalier::serve

// Chooses the answer to a request.
#ifndef ESPALIER_SERVE_ANSWER_H_
#define ESPALIER_SERVE_ANSWER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "serve/request.h"
#include "serve/site.h"

namespace espalier::serve {

/// The served files, and the conditions for access: the path begins with the token, and the Host
/// field names this machine and port. `site` must outlive it.
struct Service {
  const Site& site;
  std::string token;
  std::uint16_t port = 0;
};

/// A response. Its content is the text, a part of the resource, or nothing. The fields may give a
/// length even without content (HEAD).
struct Answer {
  int status = 0;
  /// The request had the token.
  bool is_authorized = false;
  std::vector<std::pair<const char*, std::string>> fields;
  std::string text;
  std::shared_ptr<const Resource> resource = {};
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// Returns the answer to a request. Thread-safe. A client without the token gets only 404.
Answer answer(const Request& request, const Service& service);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_ANSWER_H_

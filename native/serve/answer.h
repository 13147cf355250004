// What the server says to a request.
#ifndef ESPALIER_SERVE_ANSWER_H_
#define ESPALIER_SERVE_ANSWER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "serve/request.h"
#include "serve/site.h"

namespace espalier::serve {

/// What is served, to whom: requests whose path begins with the token, which were sent to this port
/// of this machine by name. `site` must outlive it.
struct Service {
  const Site& site;
  std::string token;
  std::uint16_t port = 0;
};

/// A response. Its content is the text or a part of the resource, or nothing: then its length may
/// be announced all the same.
struct Answer {
  int status = 0;
  /// The request had the token.
  bool is_authorized = false;
  std::vector<std::pair<const char*, std::string>> fields;
  std::string text;
  const Resource* resource = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

/// The answer to a request. Thread-safe. Who does not know the token learns nothing but 404.
Answer answer(const Request& request, const Service& service);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_ANSWER_H_

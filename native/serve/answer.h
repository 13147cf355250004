// What the server says to a request.
#ifndef ESPALIER_SERVE_ANSWER_H_
#define ESPALIER_SERVE_ANSWER_H_

#include <cstdint>
#include <string>

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

/// A response: text that is sent first, then bytes of a resource, if there is one.
struct Answer {
  std::string head;  // status line, fields, empty line; of an error its content, too
  const Resource* resource = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  bool keep_alive = false;
};

/// The answer to a request. Thread-safe. Who does not know the token learns nothing but 404.
Answer answer(const Request& request, const Service& service);

/// The answer to what is no request that this server understands; the connection then ends.
Answer refuse(int status);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_ANSWER_H_

// Names in the paths of URLs.
#ifndef ESPALIER_SERVE_URL_H_
#define ESPALIER_SERVE_URL_H_

#include <string>
#include <string_view>

namespace espalier::serve {

/// Encodes `text` as one segment of a path: all bytes but unreserved ones (RFC 3986: letters,
/// digits, "-._~") become %XX. Any bytes are allowed.
std::string percent_encoded(std::string_view text);

/// Decodes a path. A % without two hexadecimal digits stays. The result may contain any bytes:
/// compare it with names, but never use it as a file system path.
std::string percent_decoded(std::string_view path);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_URL_H_

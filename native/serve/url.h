// Names in the paths of URLs.
#ifndef ESPALIER_SERVE_URL_H_
#define ESPALIER_SERVE_URL_H_

#include <string>
#include <string_view>

namespace espalier::serve {

/// `text` as one segment of a path: all bytes but unreserved ones (RFC 3986: letters, digits,
/// "-._~") as %XX. Any bytes are allowed.
std::string percent_encoded(std::string_view text);

/// The bytes that a path stands for; a % that is not followed by two hexadecimal digits stands for
/// itself. What comes out may hold any bytes: compare it with names, but hand it to nobody as a
/// path.
std::string percent_decoded(std::string_view path);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_URL_H_

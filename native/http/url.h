// URLs of files, taken apart. Nothing that a message shows of them is secret.
#ifndef ESPALIER_HTTP_URL_H_
#define ESPALIER_HTTP_URL_H_

#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier::http {

/// An http or https URL.
struct Url {
  /// For requests: without user name, password and fragment.
  std::string text;
  /// For messages: also without the query, which may hold a signature or a token.
  std::string shown;
  std::string scheme;  // "http" or "https"
  std::string host;    // in lower case; an IPv6 address is in brackets
  std::string port;    // a number, also if it is the scheme's own
  std::string path;    // from its slash on, with the query: what a request line names
  std::string user;
  std::string password;
};

/// kInvalidArgument if `text` is no http or https URL. The message does not quote it.
///
/// Strict, because programs disagree about odd URLs: one '@', no backslash, escape or address in a
/// rare form in the host. Spaces and bytes above 0x7F are escaped. `text` and `shown` hold nothing
/// that another parser would read in another way.
[[nodiscard]] Result<Url> parse_url(std::string_view text);

/// The target of a redirect: `location` may be relative to `base`. Errors as above. A user name in
/// `location` is dropped: the server must not choose as whom to log in.
[[nodiscard]] Result<Url> resolve_redirect(const Url& base, const std::string& location);

/// The URL of the file `name` in the folder of `url` or in one below it ("d/0f"), without the query
/// of `url`, which may be a signature for that file alone. `name` comes from a file: each part is
/// encoded as one segment, because "a?b=c" and "%2e%2e" would lead elsewhere. Parts that are empty,
/// "." or ".." are kInvalidArgument.
[[nodiscard]] Result<Url> sibling_url(const Url& url, const std::string& name);

/// The last segment of the URL's path: the name that the file would have when it is downloaded. May
/// be empty.
std::string file_name(const Url& url);

/// Whether both have the same scheme, host and port. Credentials must not leave their origin.
bool have_same_origin(const Url& a, const Url& b);

/// Whether the host is this machine: what is sent there crosses no network, so it needs no https.
bool is_loopback(const Url& url);

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_URL_H_

#include "http/url.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "espalier/base/escaped.h"
#include "http/ascii.h"

namespace espalier::http {
namespace {

constexpr std::string_view kSchemeEnd = "://";

tl::unexpected<Error> not_a_url() {
  return fail(ErrorCode::kInvalidArgument,
              "this is not a valid http or https URL; check it for missing or odd characters");
}

void append_escaped(std::string& text, char c) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  const auto byte = static_cast<unsigned char>(c);
  text += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
}

// A path or a query as requests have it. What has escapes already keeps them.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == ' ' || !is_ascii(c)) {
      append_escaped(result, c);
    } else {
      result += c;
    }
  }
  return result;
}

// None for an escape that is none.
std::optional<std::string> unescaped(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      result += text[i];
      continue;
    }
    const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return std::nullopt;
    result += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return result;
}

// Without "." and ".." as segments.
std::string without_dots(std::string_view path) {
  std::string result;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view segment = path.substr(0, end);
    path.remove_prefix(end);
    if (segment == "..") result.resize(result.empty() ? 0 : result.rfind('/'));
    if (segment != "." && segment != "..") {
      result += '/';
      result += segment;
    } else if (path.empty()) {
      result += '/';
    }
  }
  return result;
}

// A URL's text in parts, none of which is checked.
struct Parts {
  std::string_view scheme;
  std::string_view authority;
  std::string_view path;   // empty, or from its slash on
  std::string_view query;  // with its question mark
};

Parts take_apart(std::string_view text) {
  Parts parts;
  text = text.substr(0, text.find('#'));
  const std::size_t scheme = text.find(kSchemeEnd);
  if (scheme != std::string_view::npos) {
    parts.scheme = text.substr(0, scheme);
    text.remove_prefix(scheme + kSchemeEnd.size());
  }
  const std::size_t query = std::min(text.find('?'), text.size());
  parts.query = text.substr(query);
  text = text.substr(0, query);
  const std::size_t path = std::min(text.find('/'), text.size());
  parts.authority = text.substr(0, path);
  parts.path = text.substr(path);
  return parts;
}

// Fewer characters than names of hosts may have: what is odd means one thing to one program and
// another to the next, and credentials would go where only one of them sees them go.
bool is_host(std::string_view host) {
  if (host.starts_with('[')) {
    constexpr std::size_t kLongest = 47;
    host.remove_prefix(1);
    if (!host.ends_with(']') || host.size() > kLongest) return false;
    host.remove_suffix(1);
    return std::count(host.begin(), host.end(), ':') >= 2 &&
           std::all_of(host.begin(), host.end(),
                       [](char c) { return hex_digit(c) >= 0 || c == ':' || c == '.'; });
  }
  constexpr std::size_t kLongest = 253;
  return !host.empty() && host.size() <= kLongest &&
         std::all_of(host.begin(), host.end(), [](char c) {
           return is_digit(c) || is_letter(c) || c == '.' || c == '-' || !is_ascii(c);
         });
}

// Digits without zeros before them. None if it is no port.
std::optional<std::string> port_of(std::string_view text) {
  unsigned port = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, port);
  if (error != std::errc() || end != last || port == 0 || port > 0xFFFF) return std::nullopt;
  return std::to_string(port);
}

// User name and password. False if they are not valid.
bool take_user(std::string_view text, Url& url) {
  const std::size_t colon = std::min(text.find(':'), text.size());
  const auto user = unescaped(text.substr(0, colon));
  const auto password = unescaped(text.substr(std::min(colon + 1, text.size())));
  if (!user || !password) return false;
  // A line break could add headers.
  if (std::any_of(user->begin(), user->end(), is_control)) return false;
  if (std::any_of(password->begin(), password->end(), is_control)) return false;
  url.user = *user;
  url.password = *password;
  return true;
}

Result<Url> made_of(const Parts& parts) {
  Url url;
  url.scheme = lower(parts.scheme);
  // Stops a redirect to file:///etc/passwd, and to protocols that nothing here limits.
  if (url.scheme != "http" && url.scheme != "https") return not_a_url();
  std::string_view authority = parts.authority;
  // Browsers take it for a slash: in http://host\@evil/ the host is another one to them.
  if (authority.find('\\') != std::string_view::npos) return not_a_url();
  if (const std::size_t at = authority.find('@'); at != std::string_view::npos) {
    if (!take_user(authority.substr(0, at), url)) return not_a_url();
    authority.remove_prefix(at + 1);
  }
  const std::size_t bracket = authority.find(']');
  const std::size_t colon = std::min(
      authority.find(':', bracket == std::string_view::npos ? 0 : bracket), authority.size());
  const std::string_view host = authority.substr(0, colon);
  if (!is_host(host)) return not_a_url();
  url.host = lower(host);
  url.port = url.scheme == "https" ? "443" : "80";
  std::string where = url.scheme + std::string(kSchemeEnd) + std::string(host);
  if (colon + 1 < authority.size()) {
    const auto port = port_of(authority.substr(colon + 1));
    if (!port) return not_a_url();
    url.port = *port;
    where += ":" + *port;
  }
  url.path = parts.path.empty() ? "/" : without_dots(escaped(parts.path));
  url.shown = where + url.path;
  url.path += escaped(parts.query);
  url.text = where + url.path;
  return url;
}

Result<Url> checked(std::string_view text, const Parts& parts) {
  if (std::any_of(text.begin(), text.end(), is_control)) return not_a_url();
  return made_of(parts);
}

// `location` as seen from `base`.
Result<Url> resolve(const Url& base, std::string_view location) {
  const std::size_t colon = location.find(':');
  if (colon < location.find_first_of("/?#")) {
    return checked(location,
                   location.substr(colon).starts_with(kSchemeEnd) ? take_apart(location) : Parts{});
  }
  const Parts from = take_apart(base.text);
  std::string text = std::string(from.scheme) + std::string(kSchemeEnd);
  if (location.starts_with("//")) {
    text = std::string(from.scheme) + ":";
  } else if (location.starts_with('/')) {
    text += from.authority;
  } else if (location.starts_with('?')) {
    text += std::string(from.authority) + std::string(from.path);
  } else {
    text +=
        std::string(from.authority) + std::string(from.path.substr(0, from.path.rfind('/'))) + "/";
  }
  text += location;
  return checked(text, take_apart(text));
}

}  // namespace

Result<Url> parse_url(std::string_view text) { return checked(text, take_apart(text)); }

Result<Url> resolve_redirect(const Url& base, const std::string& location) {
  auto url = resolve(base, location);
  if (!url) return url;
  url->user.clear();
  url->password.clear();
  return url;
}

Result<Url> sibling_url(const Url& url, const std::string& name) {
  // These lead out of the folder, or to the server's root.
  const std::string parts = "/" + name + "/";
  for (const char* const part : {"/./", "/../", "//"}) {
    if (parts.find(part) != std::string::npos) return not_a_url();
  }
  std::string segment = "./";
  for (const char c : name) {
    if (is_digit(c) || is_letter(c) || c == '-' || c == '.' || c == '~' || c == '/') {
      segment += c;
    } else {
      append_escaped(segment, c);
    }
  }
  auto sibling = resolve(url, segment);
  if (!sibling) return sibling;
  // The user typed these for the folder's server.
  sibling->user = url.user;
  sibling->password = url.password;
  return sibling;
}

std::string file_name(const Url& url) {
  const std::string_view path = std::string_view(url.path).substr(0, url.path.find('?'));
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return unescaped(name).value_or(std::string(name));
}

bool have_same_origin(const Url& a, const Url& b) {
  return a.scheme == b.scheme && a.host == b.host && a.port == b.port;
}

bool is_loopback(const Url& url) {
  if (url.host == "localhost" || url.host == "[::1]") return true;
  // Not by its first characters: 127.example.com is a name that anybody may own.
  std::string_view rest = url.host;
  for (int i = 0; i < 4; ++i) {
    const std::size_t dot = std::min(rest.find('.'), rest.size());
    const std::string_view number = rest.substr(0, dot);
    if (number.empty() || number.size() > 3 || (number.size() > 1 && number.starts_with('0')) ||
        !std::all_of(number.begin(), number.end(), is_digit) ||
        (number.size() == 3 && number > "255") || (i == 0 && number != "127") ||
        (dot == rest.size()) != (i == 3)) {
      return false;
    }
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  return true;
}

}  // namespace espalier::http

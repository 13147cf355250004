#include "http/credentials.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "http/ascii.h"

namespace espalier::http {
namespace {

constexpr const char* kToken = "ESPALIER_TOKEN";
constexpr const char* kHuggingFaceToken = "HF_TOKEN";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_hugging_face(const Url& url) {
  return url.scheme == "https" && url.host == "huggingface.co" && url.port == "443";
}

bool is_private(const Url& url) { return url.scheme == "https" || is_loopback(url); }

// Characters of names of fields: RFC 9110.
bool is_name(const std::string& name) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !name.empty() && std::all_of(name.begin(), name.end(), [&](char c) {
    return is_digit(c) || is_letter(c) || kOthers.find(c) != std::string_view::npos;
  });
}

// A line break would begin another field.
bool is_value(const std::string& value) {
  return std::none_of(value.begin(), value.end(), is_control);
}

Result<void> check(const std::vector<Header>& headers) {
  // What a request asks for, and how the connection is used, are not the caller's.
  static constexpr std::array<std::string_view, 13> kOurs = {
      "accept-encoding", "connection",        "content-length", "expect", "host",
      "if-match",        "if-range",          "keep-alive",     "range",  "te",
      "trailer",         "transfer-encoding", "upgrade"};
  for (const auto& [name, value] : headers) {
    if (!is_name(name) || !is_value(value)) {
      return fail(
          ErrorCode::kInvalidArgument,
          "a header that requests are to carry holds a line break or another character that "
          "no header has; correct its name or its value");
    }
    if (std::find(kOurs.begin(), kOurs.end(), lower(name)) != kOurs.end()) {
      return fail(ErrorCode::kInvalidArgument,
                  "requests have a header " + name + " of their own; leave it out");
    }
  }
  return {};
}

}  // namespace

Result<CredentialPolicy> CredentialPolicy::make(const Url& url, std::vector<Header> headers) {
  if (auto ok = check(headers); !ok) return propagate(ok);
  CredentialPolicy policy;
  policy.origin_ = url;
  Credentials& credentials = policy.credentials_;
  credentials.headers = std::move(headers);
  policy.has_authorization_ =
      std::any_of(credentials.headers.begin(), credentials.headers.end(),
                  [](const Header& header) { return lower(header.name) == "authorization"; });
  if (policy.has_authorization_) return policy;
  if (!url.user.empty() || !url.password.empty()) {
    credentials.user = url.user;
    credentials.password = url.password;
    return policy;
  }
  policy.variable_ = kToken;
  credentials.token = variable(kToken);
  if (credentials.token.empty() && is_hugging_face(url)) {
    policy.variable_ = kHuggingFaceToken;
    credentials.token = variable(kHuggingFaceToken);
  }
  if (credentials.token.empty()) {
    policy.variable_.clear();
    credentials.from_netrc = true;
    return policy;
  }
  const bool is_clean = std::all_of(credentials.token.begin(), credentials.token.end(),
                                    [](char c) { return c > ' ' && c < 0x7F; });
  if (!is_clean) {
    return fail(ErrorCode::kInvalidArgument,
                "the variable " + policy.variable_ +
                    " holds spaces, line breaks or other characters that no token has; set it to "
                    "the token alone");
  }
  return policy;
}

Credentials CredentialPolicy::for_request(const Url& url) const {
  if (!have_same_origin(url, origin_)) return {};
  const bool is_typed = !credentials_.user.empty() || !credentials_.password.empty();
  if (is_typed || is_private(url)) return credentials_;
  Credentials typed;
  typed.headers = credentials_.headers;
  return typed;
}

std::string CredentialPolicy::advice(const Url& url) const {
  if (!have_same_origin(url, origin_)) {
    return "the server that the URL redirects to refuses access; get a new link";
  }
  if (has_authorization_) return "check the header Authorization that you pass";
  if (!variable_.empty() && !is_private(url)) {
    return "the token in " + variable_ + " is not sent over http; use https";
  }
  if (!variable_.empty()) return "check the token in " + variable_ + ", and the link";
  if (!credentials_.user.empty()) return "check the user name and password in the URL";
  return std::string("check the link, or set ") +
         (is_hugging_face(url) ? kHuggingFaceToken : kToken) + " to an access token";
}

}  // namespace espalier::http

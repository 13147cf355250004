#include "http/credentials.h"

#include <algorithm>
#include <cstdlib>

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

}  // namespace

Result<CredentialPolicy> CredentialPolicy::from_environment(const Url& url) {
  CredentialPolicy policy;
  policy.origin_ = url;
  Credentials& credentials = policy.credentials_;
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
  return is_typed || is_private(url) ? credentials_ : Credentials{};
}

std::string CredentialPolicy::advice(const Url& url) const {
  if (!have_same_origin(url, origin_)) {
    return "the server that the URL redirects to refuses access; get a new link";
  }
  if (!variable_.empty() && !is_private(url)) {
    return "the token in " + variable_ + " is not sent over http; use https";
  }
  if (!variable_.empty()) return "check the token in " + variable_ + ", and the link";
  if (!credentials_.user.empty()) return "check the user name and password in the URL";
  return std::string("check the link, or set ") +
         (is_hugging_face(url) ? kHuggingFaceToken : kToken) + " to an access token";
}

}  // namespace espalier::http

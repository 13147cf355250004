// Which credentials a request carries, so that no other server gets them.
#ifndef ESPALIER_HTTP_CREDENTIALS_H_
#define ESPALIER_HTTP_CREDENTIALS_H_

#include <string>

#include "http/url.h"

#include "espalier/base/error.h"

namespace espalier::http {

/// What a request says about the user. At most one of the three.
struct Credentials {
  std::string token;  // "Authorization: Bearer TOKEN"
  std::string user;   // with password: "Authorization: Basic ..."
  std::string password;
  bool from_netrc = false;
};

/// The credentials for a file at `url`, and where they may go. Thread-safe.
class CredentialPolicy {
 public:
  /// The user name and password of the URL; otherwise the token in the environment: ESPALIER_TOKEN,
  /// or for https://huggingface.co HF_TOKEN; otherwise the user's ~/.netrc. kInvalidArgument for a
  /// token that holds other characters than tokens have: with a line break it could add headers.
  [[nodiscard]] static Result<CredentialPolicy> from_environment(const Url& url);

  /// The credentials for one request: none for another origin than that of the URL that the user
  /// typed, where a redirect may lead. Tokens and passwords that the URL does not hold itself go
  /// over https or to this machine alone: others could read them.
  Credentials for_request(const Url& url) const;

  /// What to do if the server wants (other) credentials, as the end of a message.
  std::string advice(const Url& url) const;

 private:
  Url origin_;
  std::string variable_;  // that the token is from
  Credentials credentials_;
};

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_CREDENTIALS_H_

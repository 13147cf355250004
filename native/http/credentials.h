// Which credentials a request carries, so that no other server gets them.
#ifndef ESPALIER_HTTP_CREDENTIALS_H_
#define ESPALIER_HTTP_CREDENTIALS_H_

#include <string>
#include <vector>

#include "espalier/error.h"
#include "http/url.h"

namespace espalier::http {

/// A field of a request.
struct Header {
  std::string name;
  std::string value;
};

/// What a request says about the user. At most one of the three, and `headers`.
struct Credentials {
  std::string token;  // "Authorization: Bearer TOKEN"
  std::string user;   // with password: "Authorization: Basic ..."
  std::string password;
  bool from_netrc = false;
  /// Of the user's own. Any of them may be a secret.
  std::vector<Header> headers;
};

/// The credentials for a file at `url`, and where they may go. Thread-safe.
class CredentialPolicy {
 public:
  /// `headers`, and, unless there is an Authorization among them: the user name and password of the
  /// URL; otherwise the token in the environment: ESPALIER_TOKEN, or for https://huggingface.co
  /// HF_TOKEN; otherwise the user's ~/.netrc. kInvalidArgument for a token that holds other
  /// characters than tokens have: with a line break it could add headers. The same for a header
  /// that is not valid, or that the rules for requests decide: Range, Accept-Encoding, Host, ...
  [[nodiscard]] static Result<CredentialPolicy> make(const Url& url, std::vector<Header> headers);

  /// The credentials for one request: none for another origin than that of the URL that the user
  /// typed, where a redirect may lead. Tokens and passwords that neither the URL nor a header holds
  /// go over https or to this machine alone: others could read them.
  Credentials for_request(const Url& url) const;

  /// What to do if the server wants (other) credentials, as the end of a message.
  std::string advice(const Url& url) const;

 private:
  Url origin_;
  std::string variable_;  // that the token is from
  Credentials credentials_;
  bool has_authorization_ = false;  // among the headers
};

}  // namespace espalier::http

#endif  // ESPALIER_HTTP_CREDENTIALS_H_

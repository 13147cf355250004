// The secret in the URL that keeps other users and other pages of the same machine out.
#ifndef ESPALIER_SERVE_TOKEN_H_
#define ESPALIER_SERVE_TOKEN_H_

#include <string>
#include <string_view>

#include "espalier/base/error.h"

namespace espalier::serve {

/// 128 bits from the system's generator as 32 hexadecimal digits. kIoError if there are none to be
/// had.
Result<std::string> make_token();

/// Whether the texts are equal, in a time that depends on their lengths alone: guesses learn
/// nothing from how long they take.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_TOKEN_H_

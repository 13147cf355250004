// The secret in the URL, which keeps out other users and other pages of this machine.
#ifndef ESPALIER_SERVE_TOKEN_H_
#define ESPALIER_SERVE_TOKEN_H_

#include <string>
#include <string_view>

#include "espalier/error.h"

namespace espalier::serve {

/// 128 random bits from the system as 32 hexadecimal digits. kIoError if the system provides none.
[[nodiscard]] Result<std::string> make_token();

/// Whether the texts are equal. The time depends only on their lengths, so it reveals nothing to
/// guesses.
bool equal_secrets(std::string_view a, std::string_view b);

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_TOKEN_H_

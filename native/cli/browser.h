// Opening a page in the user's browser.
#ifndef ESPALIER_CLI_BROWSER_H_
#define ESPALIER_CLI_BROWSER_H_

#include <string>

#include "espalier/base/error.h"

namespace espalier::cli {

/// Has the desktop open `url`, in whatever browser the user likes, and does not wait for it.
/// kFileNotFound or kIoError if there is no program to ask: xdg-open, on macOS open. Whether that
/// finds a browser is not known.
Result<void> open_browser(const std::string& url);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_BROWSER_H_

// Opens a page in the user's browser.
#ifndef ESPALIER_CLI_VIEW_BROWSER_H_
#define ESPALIER_CLI_VIEW_BROWSER_H_

#include <string>

#include "espalier/error.h"

namespace espalier::cli {

/// Asks the desktop to open `url` in the default browser, and does not wait. kFileNotFound or
/// kIoError if xdg-open (macOS: open) cannot be run. Success does not mean that it found a browser.
[[nodiscard]] Result<void> open_browser(const std::string& url);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_VIEW_BROWSER_H_

// URLs where a command takes a file.
#ifndef ESPALIER_CLI_OPENING_URLS_H_
#define ESPALIER_CLI_OPENING_URLS_H_

#include <string>
#include <string_view>

#include "espalier/checkpoint_file.h"
#include "espalier/error.h"

namespace espalier::cli {

/// Whether an argument is an http or https URL. A file of such a name is read as ./http:...
bool is_url(std::string_view name);

/// The name of a file for messages and results, or a message that quotes one. What looks like a URL
/// of any scheme loses what may be secret: user name and password, which are all up to the last
/// '@', and of http and https query and fragment. Names of files that exist stay as they are.
std::string shown_name(std::string_view name);

/// kInvalidArgument for a URL of another scheme, such as s3:, unless there is such a file.
[[nodiscard]] Result<void> check_scheme(const std::string& name);

/// Opens a checkpoint on a web server; its further files are beside it. The file that was opened
/// last stays open, because some commands open a file twice. kInvalidArgument if the program was
/// built without libcurl. A signal that stops a save ends its waiting for the network, too.
[[nodiscard]] Result<CheckpointFile> open_url(const std::string& url, OpenFileOptions options);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_OPENING_URLS_H_

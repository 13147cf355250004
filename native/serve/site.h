// The table of everything that a server serves, made before the first request.
#ifndef ESPALIER_SERVE_SITE_H_
#define ESPALIER_SERVE_SITE_H_

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "serve/resource.h"

#include "espalier/base/error.h"

namespace espalier::serve {

/// Resources by name: "index.html", "assets/app.js". Requests are looked up here and never become
/// file system paths, so no request can leave the folder. Const use is thread-safe. Handles to
/// resources are valid as long as the site lives.
class Site {
 public:
  /// Adds a resource, unless the name is taken.
  void add(std::string name, std::unique_ptr<const Resource> resource);

  /// Reads all regular files below `folder` into memory, so a rebuild does not mix two versions of
  /// the page. "app.js.gz" beside "app.js" has no name of its own: it is sent to clients that
  /// request "app.js" and accept gzip. Symbolic links are skipped, because they may lead anywhere.
  /// kFileNotFound, kIoError; kLimitExceeded beyond 64 MiB.
  [[nodiscard]] Result<void> add_folder(const std::filesystem::path& folder);

  /// The resource of exactly that name, or null.
  const Resource* find(std::string_view name) const;

 private:
  std::map<std::string, std::unique_ptr<const Resource>, std::less<>> resources_;
};

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_SITE_H_

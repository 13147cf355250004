// All that a server serves: a table of names, made before the first request.
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

/// Resources by name: "index.html", "assets/app.js". A request is looked up here and never becomes
/// a path of the file system, so there is no way out of a folder. Const use is thread-safe; handles
/// to resources are valid as long as the site lives.
class Site {
 public:
  /// Adds a resource, unless the name is taken.
  void add(std::string name, std::unique_ptr<const Resource> resource);

  /// Reads all regular files below `folder` into memory, so that a page that is built again
  /// meanwhile is served as one. "app.js.gz" beside "app.js" is not served by its name, but to who
  /// asks for "app.js" and takes gzip. Links in it are left out: they may lead anywhere.
  /// kFileNotFound, kIoError; kLimitExceeded beyond 64 MiB, for that is no page.
  Result<void> add_folder(const std::filesystem::path& folder);

  /// The resource of exactly that name, or null.
  const Resource* find(std::string_view name) const;

 private:
  std::map<std::string, std::unique_ptr<const Resource>, std::less<>> resources_;
};

}  // namespace espalier::serve

#endif  // ESPALIER_SERVE_SITE_H_

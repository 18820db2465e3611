#include "lib/map/database_modules.h"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>

#include "lib/map/memcache_driver.h"

namespace pen::map::database {
namespace {

struct Loaded {
  std::mutex mutex;
  std::string directory;
  std::map<std::string, Driver*> drivers;
};
Loaded& loaded() {
  static auto* const only = new Loaded;  // used by threads that outlive main()
  return *only;
}

std::string beside_the_program() {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path own = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (own.filename() == "penstock" && own.parent_path().filename() == "libexec") return own / "tables";
  return own.parent_path() / "libexec" / "penstock" / "tables";
}

}  // namespace

Result<Driver*> find_driver(const std::string& type) {
  if (type == "memcache") return memcache_driver();
  Loaded& all = loaded();
  const std::lock_guard lock(all.mutex);
  if (const auto known = all.drivers.find(type); known != all.drivers.end()) return known->second;
  if (all.directory.empty()) all.directory = beside_the_program();
  const std::string file = all.directory + "/" + type + ".so";
  if (::access(file.c_str(), F_OK) != 0)
    return fail(MapError::unknown_type,
                "there is no " + file + ": install the part of Penstock for " + type + " tables (target tables_" +
                    type + " of the build)",
                errno);
  ::dlerror();
  void* module = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    const char* why = ::dlerror();
    return fail(MapError::unreadable, why == nullptr ? file : why);
  }
  const auto entry = reinterpret_cast<DriverEntry>(::dlsym(module, kDriverEntry));
  Driver* driver = entry == nullptr ? nullptr : entry(kDriverVersion);
  if (driver == nullptr)
    return fail(MapError::unreadable,
                file + ": made for another version of Penstock, install all parts of one version");
  all.drivers.emplace(type, driver);
  return driver;
}

void modules_in(const std::string& directory) {
  Loaded& all = loaded();
  const std::lock_guard lock(all.mutex);
  all.directory = directory;
}

}  // namespace pen::map::database

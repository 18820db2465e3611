#include "lib/map/notes.h"

#include <map>
#include <mutex>
#include <utility>

#include "lib/map/file_map.h"

namespace pen::map {
namespace {

struct Telling {
  TellNote tell;
  std::mutex mutex;
  // The last report on each file that has such lines.
  std::map<std::string, std::pair<FileStamp, std::vector<std::string>>> told;
};
Telling& telling() {
  static auto* const only = new Telling;  // used by threads that outlive main()
  return *only;
}

}  // namespace

void on_table_note(TellNote tell) { telling().tell = std::move(tell); }

void tell_notes(const std::string& file, const FileStamp& version, const std::vector<std::string>& notes) {
  Telling& all = telling();
  if (!all.tell) return;
  {
    const std::lock_guard lock(all.mutex);
    if (notes.empty()) {
      all.told.erase(file);
      return;
    }
    auto fresh = std::pair(version, notes);
    auto& told = all.told[file];
    if (told == fresh) return;
    told = std::move(fresh);
  }
  for (const std::string& note : notes) all.tell(note);
}

}  // namespace pen::map

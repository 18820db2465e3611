#pragma once
/// A table that is an indexed file: cdb, lmdb.
///
/// Use:     std::make_shared<IndexedMap<CdbFile>>(spec, name + ".cdb", options)
///          // File has: static Result<std::shared_ptr<File>> open(path); Value find(key) const
/// Thread:  any.
#include <optional>
#include <string>
#include <utility>

#include "lib/base/idn/fold.h"
#include "lib/base/text.h"
#include "lib/map/file_map.h"
#include "lib/map/map.h"

namespace pen::map {

/// The value under the key as penmap writes it: folded. A file of older versions, or of postmap with smtputf8_enable =
/// no, has keys of which the ASCII letters alone are in lower case: these are found if they are written as the key is.
template <class File>
Value find_folded(const File& file, std::string_view key) {
  auto value = file.find(idn::fold(key));
  if (!value || *value || !idn::beyond_ascii(key)) return value;
  return file.find(to_lower(key));
}

template <class File>
class IndexedMap final : public Map {
 public:
  IndexedMap(std::string spec, const std::string& path, const OpenOptions& options)
      : Map(std::move(spec)), fold_(options.fold_keys), file_(path, *options.clock, &File::open) {}
  Value find(std::string_view key) override {
    PEN_TRY_ASSIGN(const auto file, file_.current());
    return fold_ ? find_folded(*file, key) : file->find(key);
  }
  std::optional<std::uint32_t> owner() override { return file_.owner(); }
  std::optional<Error> problem() override {
    auto file = file_.current();
    if (file) return std::nullopt;
    return std::move(file).error();
  }

 private:
  bool fold_;
  Reloading<File> file_;
};

}  // namespace pen::map

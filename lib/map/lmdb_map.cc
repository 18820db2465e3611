#include <fcntl.h>
#include <lmdb.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/lmdb_pages.h"
#include "lib/base/text.h"
#include "lib/map/file_map.h"
#include "lib/map/lmdb_file.h"
#include "lib/map/table_file.h"
#include "lib/map/types.h"

namespace pen::map {
namespace {

std::unexpected<Error> lmdb_failure(const std::string& path, int code) {
  // LMDB's own codes are negative, everything else is errno.
  if (code > 0) return fail(MapError::unreadable, "open " + path, code);
  return fail(MapError::unreadable, path + ": " + mdb_strerror(code));
}

struct CloseEnv {
  void operator()(MDB_env* env) const { mdb_env_close(env); }
};
using Env = std::unique_ptr<MDB_env, CloseEnv>;
struct AbortTxn {
  void operator()(MDB_txn* txn) const { mdb_txn_abort(txn); }
};
using Txn = std::unique_ptr<MDB_txn, AbortTxn>;

Result<Env> open_env(const std::string& path, unsigned flags, std::size_t map_size, unsigned mode) {
  MDB_env* raw = nullptr;
  if (const int code = mdb_env_create(&raw); code != 0) return lmdb_failure(path, code);
  Env env(raw);
  if (map_size != 0) mdb_env_set_mapsize(raw, map_size);
  if (const int code = mdb_env_open(raw, path.c_str(), MDB_NOSUBDIR | MDB_NOLOCK | flags, mode);
      code != 0) {
    return lmdb_failure(path, code);
  }
  return env;
}
Result<Txn> begin(MDB_env* env, const std::string& path, unsigned flags) {
  MDB_txn* raw = nullptr;
  if (const int code = mdb_txn_begin(env, nullptr, flags, &raw); code != 0)
    return lmdb_failure(path, code);
  return Txn(raw);
}

// liblmdb believes what it maps: a damaged file would end the process at the first touch.
Result<void> check_pages(int fd, const std::string& path) {
  const auto whole = check_lmdb_pages(fd);
  if (whole) return {};
  return fail(MapError::unreadable,
              path + ": " + whole.error().message() + ": make the table again from its source");
}

MDB_val to_val(std::string_view text) { return {text.size(), const_cast<char*>(text.data())}; }
std::string_view without_nul(const MDB_val& v) {
  std::string_view text(static_cast<const char*>(v.mv_data), v.mv_size);
  if (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  return text;
}

}  // namespace

struct LmdbFile::Impl {
  std::string path;
  Env env;
  MDB_dbi dbi = 0;
};
LmdbFile::LmdbFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LmdbFile::~LmdbFile() = default;

Result<std::shared_ptr<LmdbFile>> LmdbFile::open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  PEN_TRY_ASSIGN(TableFile file, open_table_file(path));
  PEN_TRY(check_pages(file.fd.get(), path));
  std::string where = path;
  if (file.lent) {  // LMDB opens paths only
    PEN_TRY_ASSIGN(file.fd, memory_copy(file.fd.get(), path));
    where = "/proc/self/fd/" + std::to_string(file.fd.get());
  }
  PEN_TRY_ASSIGN(impl->env, open_env(where, MDB_RDONLY | MDB_NOTLS, 0, 0));
  PEN_TRY_ASSIGN(auto txn, begin(impl->env.get(), path, MDB_RDONLY));
  if (const int code = mdb_dbi_open(txn.get(), nullptr, 0, &impl->dbi); code != 0)
    return lmdb_failure(path, code);
  return std::shared_ptr<LmdbFile>(new LmdbFile(std::move(impl)));
}

Value LmdbFile::find(std::string_view key) const {
  if (key.empty() || key.size() > kMaxLmdbKey || key.find('\0') != std::string_view::npos)
    return std::nullopt;
  PEN_TRY_ASSIGN(auto txn, begin(impl_->env.get(), impl_->path, MDB_RDONLY));
  std::string with_nul(key);
  with_nul.push_back('\0');
  for (const std::string_view form : {std::string_view(with_nul), key}) {
    MDB_val k = to_val(form);
    MDB_val v{};
    const int code = mdb_get(txn.get(), impl_->dbi, &k, &v);
    if (code == 0) return std::string(without_nul(v));
    if (code != MDB_NOTFOUND) return lmdb_failure(impl_->path, code);
  }
  return std::nullopt;
}

Result<void> LmdbFile::each(
    const std::function<bool(std::string_view, std::string_view)>& visit) const {
  PEN_TRY_ASSIGN(auto txn, begin(impl_->env.get(), impl_->path, MDB_RDONLY));
  MDB_cursor* raw = nullptr;
  if (const int code = mdb_cursor_open(txn.get(), impl_->dbi, &raw); code != 0)
    return lmdb_failure(impl_->path, code);
  const std::unique_ptr<MDB_cursor, decltype(&mdb_cursor_close)> cursor(raw, &mdb_cursor_close);
  MDB_val k{}, v{};
  int code = mdb_cursor_get(raw, &k, &v, MDB_FIRST);
  while (code == 0) {
    if (!visit(without_nul(k), without_nul(v))) return {};
    code = mdb_cursor_get(raw, &k, &v, MDB_NEXT);
  }
  if (code != MDB_NOTFOUND) return lmdb_failure(impl_->path, code);
  return {};
}

namespace {

Result<std::shared_ptr<LmdbFile>> load_file(const std::string& path) {
  return LmdbFile::open(path);
}

class LmdbMap final : public Map {
 public:
  LmdbMap(std::string spec, const std::string& path, const OpenOptions& options)
      : Map(std::move(spec)), fold_(options.fold_keys), file_(path, *options.clock, &load_file) {}
  Value lookup(std::string_view key) override {
    PEN_TRY_ASSIGN(const auto file, file_.current());
    return fold_ ? file->find(to_lower(key)) : file->find(key);
  }
  std::optional<std::uint32_t> owner() override { return file_.owner(); }
  std::optional<Error> problem() override {
    auto file = file_.current();
    if (file) return std::nullopt;
    return std::move(file).error();
  }

 private:
  bool fold_;
  Reloading<LmdbFile> file_;
};

/// Writes content to a new file at path in one transaction; false: the map size was too small.
Result<bool> write_content(const std::string& path, const Content& content, std::size_t map_size,
                           unsigned mode, const Progress& progress) {
  // NOSYNC: the caller syncs the whole file once at the end.
  PEN_TRY_ASSIGN(auto env, open_env(path, MDB_NOSYNC, map_size, mode));
  PEN_TRY_ASSIGN(auto txn, begin(env.get(), path, 0));
  MDB_dbi dbi = 0;
  if (const int code = mdb_dbi_open(txn.get(), nullptr, 0, &dbi); code != 0)
    return lmdb_failure(path, code);
  std::size_t done = 0;
  for (const auto& [key, value] : content) {
    tell(progress, content.size() + ++done, 2 * content.size());
    MDB_val k{key.size() + 1, const_cast<char*>(key.c_str())};
    MDB_val v{value.size() + 1, const_cast<char*>(value.c_str())};
    const int code = mdb_put(txn.get(), dbi, &k, &v, 0);
    if (code == MDB_MAP_FULL || code == MDB_TXN_FULL) return false;
    if (code != 0) return lmdb_failure(path, code);
  }
  const int code = mdb_txn_commit(txn.release());
  if (code == MDB_MAP_FULL || code == MDB_TXN_FULL) return false;
  if (code != 0) return lmdb_failure(path, code);
  return true;
}

Result<void> write_file(const std::string& path, const Content& content, unsigned mode,
                        const Progress& progress) {
  std::size_t bytes = 0;
  for (const auto& [key, value] : content) bytes += key.size() + value.size() + 64;
  // LMDB reserves address space, not disk: being generous costs nothing.
  std::size_t map_size = std::max<std::size_t>(bytes * 4, 16u << 20) / 4096 * 4096;
  return replace_file(path, mode, [&](const std::string& fresh) -> Result<void> {
    for (;;) {
      PEN_TRY_ASSIGN(const bool fitted, write_content(fresh, content, map_size, mode, progress));
      if (fitted) return {};
      ::unlink(fresh.c_str());
      map_size *= 2;
    }
  });
}

Result<Content> old_content(const std::string& path) {
  Content content;
  PEN_TRY_ASSIGN(const auto file, LmdbFile::open(path));
  PEN_TRY(file->each([&](std::string_view key, std::string_view value) {
    content.try_emplace(std::string(key), value);
    return true;
  }));
  return content;
}

}  // namespace

Result<std::vector<std::string>> build_lmdb(const std::string& path,
                                            const std::vector<TableEntry>& entries,
                                            std::string_view source, const BuildOptions& options) {
  PEN_TRY_ASSIGN(Content content, begin_content(options, [&] { return old_content(path); }));
  PEN_TRY_ASSIGN(auto warnings, merge(content, entries, source, kMaxLmdbKey, options));
  PEN_TRY(write_file(path, content, options.mode, options.progress));
  return warnings;
}

Result<std::size_t> remove_from_lmdb(const std::string& path, const std::vector<std::string>& keys,
                                     bool fold_keys, const Progress& progress) {
  return remove_keys(
      path, keys, fold_keys, [&] { return old_content(path); },
      [&](const Content& content, unsigned mode) {
        return write_file(path, content, mode, progress);
      });
}

std::shared_ptr<Map> make_lmdb(std::string spec, const std::string& name,
                               const OpenOptions& options) {
  return std::make_shared<LmdbMap>(std::move(spec), name + ".lmdb", options);
}

}  // namespace pen::map

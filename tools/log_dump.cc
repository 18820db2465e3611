#include "tools/log_dump.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <cstdio>

#include "lib/base/text.h"
#include "lib/queue/queue_log/dump.h"
#include "lib/queue/queue_log/posix_storage.h"
#include "qmgr/payload.h"
#include "tools/queue_client.h"

namespace pen::tools {
namespace {

namespace ql = queue_log;

/// One file under any name, presented as the slot that its content names.
class OneFile final : public ql::Storage {
 public:
  OneFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}
  Result<std::vector<SlotInfo>> list() override { return std::vector<SlotInfo>{}; }
  Result<void> allocate(ql::Slot, std::uint64_t) override { return fail_errno(path_, EROFS); }
  Result<void> write(ql::Slot, std::uint64_t, Bytes) override { return fail_errno(path_, EROFS); }
  Result<void> sync(ql::Slot) override { return {}; }
  Result<void> drop_cache(ql::Slot) override { return {}; }
  Result<void> set_aside(ql::Slot) override { return fail_errno(path_, EROFS); }
  Result<void> read(ql::Slot, std::uint64_t offset, MutableBytes into) override {
    while (!into.empty()) {
      const ssize_t n = ::pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return fail_errno("read " + path_, n < 0 ? errno : EIO);
      into = into.subspan(static_cast<std::size_t>(n));
      offset += static_cast<std::uint64_t>(n);
    }
    return {};
  }

 private:
  Fd fd_;
  std::string path_;
};

std::string payload_lines(std::string_view payload) {
  const auto stored = qmgr::read_payload(payload);
  if (!stored) return "    the payload is not a message, or not of this version of Penstock";
  const mail::Envelope& e = stored->envelope;
  std::string out = fmt::format("    client {}[{}] message-id {}", printable(e.client.name),
                                printable(e.client.address), printable(e.message_id));
  for (const auto& r : e.recipients) out += "\n    recipient <" + printable(r.address) + ">";
  return out;
}

Result<void> dump_one(ql::Dump& dump, const std::string& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return fail_errno(path, errno);
  if (S_ISDIR(info.st_mode)) {
    PEN_TRY_ASSIGN(auto storage, ql::PosixStorage::open_to_read(path));
    return dump.directory(*storage);
  }
  if (!S_ISREG(info.st_mode)) return fail_errno(path + ": neither a file nor a directory", EINVAL);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail_errno(path, errno);
  OneFile file(fd, path);
  const auto size = static_cast<std::uint64_t>(info.st_size);
  const auto slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  if (name.starts_with("positions")) return dump.positions(file, size);
  const auto number = name.starts_with("segment-") ? parse_unsigned(name.substr(8)) : std::nullopt;
  return dump.segment(file, number ? static_cast<ql::Slot>(*number) : 0, size);
}

}  // namespace

int dump_log(const std::string& program, const std::vector<std::string>& paths, bool verbose) {
  ql::Dump::Options options;
  options.verbose = verbose;
  options.payload = payload_lines;
  ql::Dump dump(std::move(options), [](const std::string& line) { print(line + "\n"); });
  int status = 0;
  for (const std::string& path : paths) {
    if (auto done = dump_one(dump, path); !done) {
      std::fflush(stdout);
      std::fprintf(stderr, "%s: %s\n", program.c_str(), done.error().message().c_str());
      status = EX_NOINPUT;
    }
  }
  print(fmt::format("{} records, {} damaged places, {} bytes\n", dump.records(), dump.damage(), dump.damaged_bytes()));
  if (std::fflush(stdout) != 0) return EX_IOERR;
  return status == 0 && dump.damage() + dump.other_versions() != 0 ? EX_DATAERR : status;
}

}  // namespace pen::tools

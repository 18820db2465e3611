#include "penevents/backlog.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "lib/base/digest/digest.h"
#include "lib/base/file_io.h"
#include "lib/base/text.h"

namespace pen::penevents {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSegment = "events-", kHook = "hook-";
constexpr std::uint64_t kSmallest = 64 * 1024, kLargest = 4 * 1024 * 1024;

std::string hook_name(const std::string& url) {
  std::string out(kHook);
  for (const char c : digest::hash(digest::Digest::sha256, url).substr(0, 12))
    out += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return out;
}

std::vector<std::string> names_in(const std::string& directory, std::string_view prefix) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error))
    if (std::string name = at->path().filename().string(); name.starts_with(prefix)) out.push_back(std::move(name));
  return out;
}

}  // namespace

Backlog::Backlog(std::string directory, std::uint64_t limit)
    : directory_(std::move(directory)), segment_size_(std::clamp(limit / 16, kSmallest, kLargest)) {}

Result<Backlog> Backlog::open(std::string directory, std::uint64_t limit) {
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno(directory);
  Backlog log(std::move(directory), limit);
  PEN_TRY(log.recover());
  return log;
}

std::string Backlog::path_of(std::uint64_t begin) const {
  return fmt::format("{}/{}{:020}", directory_, kSegment, begin);
}

Result<void> Backlog::recover() {
  for (const std::string& name : names_in(directory_, kSegment)) {
    const auto begin = parse_unsigned(std::string_view(name).substr(kSegment.size()));
    struct stat st{};
    if (!begin || ::stat((directory_ + "/" + name).c_str(), &st) != 0) continue;
    segments_[*begin] = static_cast<std::uint64_t>(st.st_size);
  }
  if (segments_.empty()) return {};
  const auto [begin, size] = *segments_.rbegin();
  end_ = begin + size;
  std::uint64_t whole = size;
  for (bool found = false; whole > 0 && !found;) {  // the last line end
    const auto step = std::min<std::uint64_t>(whole, 65536);
    PEN_TRY_ASSIGN(const std::string part, read_bytes(begin + whole - step, static_cast<std::size_t>(step)));
    const auto at = part.rfind('\n');
    found = at != std::string::npos;
    whole = found ? whole - step + at + 1 : whole - step;
  }
  last_ = Fd(::open(path_of(begin).c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (!last_) return fail_errno(path_of(begin));
  if (whole != size && ::ftruncate(last_.get(), static_cast<off_t>(whole)) != 0) return fail_errno(path_of(begin));
  segments_[begin] = whole;
  end_ = begin + whole;
  return {};
}

Result<void> Backlog::append(std::string_view lines) {
  if (lines.empty()) return {};
  if (!last_ || segments_.empty() || segments_.rbegin()->second >= segment_size_) {
    Fd fresh(::open(path_of(end_).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fresh) return fail_errno(path_of(end_));
    last_ = std::move(fresh);
    segments_[end_] = 0;
  }
  auto& [begin, size] = *segments_.rbegin();
  if (auto written = write_all(last_.get(), lines, path_of(begin)); !written) {
    if (::ftruncate(last_.get(), static_cast<off_t>(size)) != 0) last_ = Fd();  // then the next one is a new segment
    return written;
  }
  size += lines.size();
  end_ += lines.size();
  return {};
}

Result<std::string> Backlog::read_bytes(std::uint64_t position, std::size_t bytes) const {
  auto at = segments_.upper_bound(position);
  if (at == segments_.begin()) return std::string();
  --at;
  if (position >= at->first + at->second) return std::string();
  const Fd fd(::open(path_of(at->first).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return fail_errno(path_of(at->first));
  const std::uint64_t left = at->first + at->second - position;
  const auto most = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, left));
  return read_at(fd.get(), position - at->first, most, path_of(at->first));
}

Result<std::string> Backlog::read(std::uint64_t position, std::size_t lines, std::size_t bytes) const {
  PEN_TRY_ASSIGN(std::string out, read_bytes(position, bytes));
  std::size_t whole = 0;
  for (std::size_t n = 0; n < lines; ++n) {
    const auto end = out.find('\n', whole);
    if (end == std::string::npos) break;
    whole = end + 1;
  }
  out.resize(whole);
  return out;
}

std::uint64_t Backlog::next_segment(std::uint64_t position) const {
  const auto at = segments_.upper_bound(position);
  return at == segments_.end() ? end_ : at->first;
}

Result<std::uint64_t> Backlog::count_lines(std::uint64_t from, std::uint64_t to) const {
  std::uint64_t lines = 0;
  while (from < to) {
    PEN_TRY_ASSIGN(const std::string part,
                   read_bytes(from, static_cast<std::size_t>(std::min<std::uint64_t>(to - from, 1024 * 1024))));
    if (part.empty()) break;
    lines += static_cast<std::uint64_t>(std::ranges::count(part, '\n'));
    from += part.size();
  }
  return lines;
}

Result<void> Backlog::drop_before(std::uint64_t position) {
  // The last segment stays: its end is where the log goes on after a restart.
  while (segments_.size() > 1 && segments_.begin()->first + segments_.begin()->second <= position) {
    const std::string path = path_of(segments_.begin()->first);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return fail_errno(path);
    segments_.erase(segments_.begin());
  }
  return {};
}

std::optional<std::uint64_t> load_position(const std::string& directory, const std::string& url) {
  const Fd fd(::open((directory + "/" + hook_name(url)).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) return std::nullopt;
  std::string text(64, '\0');
  const ssize_t n = ::read(fd.get(), text.data(), text.size());
  if (n <= 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(n));
  return parse_unsigned(std::string_view(text).substr(0, text.find('\n')));
}

Result<void> save_position(const std::string& directory, const std::string& url, std::uint64_t position) {
  const std::string path = directory + "/" + hook_name(url), beside = path + ".new";
  {
    const Fd fd(::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd) return fail_errno(beside);
    PEN_TRY(write_all(fd.get(), fmt::format("{}\n", position), beside));
  }
  if (::rename(beside.c_str(), path.c_str()) != 0) return fail_errno(path);
  return {};
}

void forget_others(const std::string& directory, const std::vector<std::string>& urls) {
  for (const std::string& name : names_in(directory, kHook)) {
    const bool wanted = std::ranges::any_of(urls, [&](const std::string& url) { return hook_name(url) == name; });
    if (!wanted) ::unlink((directory + "/" + name).c_str());
  }
}

}  // namespace pen::penevents

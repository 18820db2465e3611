#include "lib/net/tls/tickets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "lib/base/fd.h"
#include "lib/base/random.h"
#include "lib/base/text.h"

namespace pen::tls {
namespace {

// Tickets with unknown keys may come at any rate: the file is not read for each of them.
constexpr seconds kLookAgain{1};
constexpr std::size_t kMaxKeys = 16;         // per file; a file with more is not ours
constexpr std::size_t kMaxFile = 16 * 1024;  // bytes

template <std::size_t N>
std::string hex(const std::array<unsigned char, N>& bytes) {
  std::string out;
  for (const unsigned char b : bytes) out += fmt::format("{:02x}", b);
  return out;
}

template <std::size_t N>
bool unhex(std::string_view text, std::array<unsigned char, N>& out) {
  if (text.size() != 2 * N) return false;
  const auto digit = [](char c) -> int {
    if (ascii_digit(c)) return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < N; ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out[i] = static_cast<unsigned char>(high * 16 + low);
  }
  return true;
}

/// Parses lines "made name cipher mac"; a malformed line (a write that was cut short) is ignored.
std::vector<TicketKeys::Key> parse(std::string_view text) {
  std::vector<TicketKeys::Key> keys;
  for (const std::string_view line : split(text, "\n")) {
    const auto words = split(line, " ");
    TicketKeys::Key key;
    const auto made = words.size() == 4 ? parse_unsigned(words[0]) : std::nullopt;
    if (!made || !unhex(words[1], key.name) || !unhex(words[2], key.cipher) || !unhex(words[3], key.mac)) continue;
    key.made = static_cast<long long>(*made);
    if (keys.size() < kMaxKeys) keys.push_back(key);
  }
  return keys;
}

}  // namespace

TicketKeys::TicketKeys(std::string file, seconds lifetime, const Clock& clock)
    : file_(std::move(file)), lifetime_(std::max<long long>(1, lifetime.count())), clock_(clock) {}

TicketKeys::~TicketKeys() {
  for (Key& key : keys_) OPENSSL_cleanse(&key, sizeof key);
}

// A key from the future was made before the clock was set back. It does not count as young, and is removed.
bool TicketKeys::young(const Key& key) const {
  const long long age = unix_seconds(clock_.wall_now()) - key.made;
  return age >= 0 && age < lifetime_;
}
bool TicketKeys::ageing(const Key& key) const { return !young(key); }

void TicketKeys::forget_old() {
  const long long now = unix_seconds(clock_.wall_now());
  std::erase_if(keys_, [&](Key& key) {
    const bool old = now < key.made || now - key.made >= 2 * lifetime_;
    if (old) OPENSSL_cleanse(&key, sizeof key);
    return old;
  });
}

void TicketKeys::add_new_key() {
  Key key;
  const auto fill = [](auto& bytes) { secure_random_bytes(std::as_writable_bytes(std::span(bytes))); };
  fill(key.name);
  fill(key.cipher);
  fill(key.mac);
  key.made = unix_seconds(clock_.wall_now());
  keys_.push_back(key);
}

Result<void> TicketKeys::exchange_with_file(bool make) {
  const Fd fd(::open(file_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!fd) return fail_errno(file_);
  struct stat facts{};
  if (::fstat(fd.get(), &facts) != 0) return fail_errno(file_);
  if (!S_ISREG(facts.st_mode) || (facts.st_mode & 077) != 0)
    return fail_errno(file_ + ": must be a plain file that its owner alone can read", EPERM);
  if (::flock(fd.get(), LOCK_EX) != 0) return fail_errno(file_);
  std::string text(kMaxFile, '\0');
  const ssize_t got = ::pread(fd.get(), text.data(), text.size(), 0);
  if (got < 0) return fail_errno(file_);
  text.resize(static_cast<std::size_t>(got));
  for (const Key& key : parse(text)) {
    if (std::ranges::none_of(keys_, [&](const Key& k) { return k.name == key.name; })) keys_.push_back(key);
  }
  OPENSSL_cleanse(text.data(), text.size());
  forget_old();
  std::ranges::sort(keys_, {}, &Key::made);
  if (!make || (!keys_.empty() && young(keys_.back()))) return {};
  add_new_key();
  text.clear();
  for (const Key& key : keys_)
    text += fmt::format("{} {} {} {}\n", key.made, hex(key.name), hex(key.cipher), hex(key.mac));
  // Over what stood there: programs with this file may shorten none.
  if (text.size() < static_cast<std::size_t>(got)) text.append(static_cast<std::size_t>(got) - text.size(), '\n');
  // Lost keys only cost full handshakes, and a torn line is ignored: so there is no sync.
  const bool written = ::pwrite(fd.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  const int reason = errno;
  OPENSSL_cleanse(text.data(), text.size());
  if (!written) return fail_errno(file_, reason);
  return {};
}

void TicketKeys::synchronise(bool make) {
  looked_ = clock_.now();
  problem_.clear();
  if (!file_.empty()) {
    if (auto done = exchange_with_file(make); !done) problem_ = done.error().message();
  }
  forget_old();
  if (make && (keys_.empty() || !young(keys_.back()))) add_new_key();
}

const TicketKeys::Key& TicketKeys::current() {
  if (keys_.empty() || !young(keys_.back())) synchronise(true);
  return keys_.back();
}

const TicketKeys::Key* TicketKeys::find(Bytes name) {
  const auto look = [&]() -> const Key* {
    for (const Key& key : keys_) {
      const long long age = unix_seconds(clock_.wall_now()) - key.made;
      if (age >= 0 && age < 2 * lifetime_ && name.size() == kName &&
          std::memcmp(key.name.data(), name.data(), kName) == 0)
        return &key;
    }
    return nullptr;
  };
  if (const Key* key = look()) return key;
  if (file_.empty() || (looked_ != SteadyTime::min() && clock_.now() < looked_ + kLookAgain)) return nullptr;
  synchronise(false);
  return look();
}

}  // namespace pen::tls

#include "lib/send/mailbox/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <ctime>

#include <fmt/format.h>

#include <expected>
#include <memory>
#include <optional>

#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "lib/send/mailbox/content.h"

namespace pen::mailbox {
namespace {

mail::DeliveryStatus trouble(std::string dsn, std::string text) {
  mail::DeliveryStatus s;
  s.action = dsn.starts_with('5') ? mail::Action::failed : mail::Action::deferred;
  s.dsn = std::move(dsn);
  s.text = std::move(text);
  return s;
}

/// The status for an errno of a mailbox file: a full disk is our problem, a full quota the recipient's.
mail::DeliveryStatus trouble(const Error& e, std::string_view what) {
  std::string text = fmt::format("{}: {}", what, e.message());
  switch (e.sys_errno()) {
    case EFBIG:
    case EDQUOT:
      return trouble("5.2.2", std::move(text));
    case ENOSPC:
      return trouble("4.3.0", std::move(text));
    default:
      return trouble("4.2.0", std::move(text));
  }
}

mail::DeliveryStatus delivered(std::string_view where) {
  mail::DeliveryStatus s;
  s.action = mail::Action::delivered;
  s.dsn = "2.0.0";
  s.text = fmt::format("delivered to {}", where);
  return s;
}

std::vector<std::string> components(std::string_view path) {
  std::vector<std::string> parts;
  for (const auto part : split(path, "/"))
    if (part != ".") parts.emplace_back(part);
  return parts;
}

/// Follows a link in a home directory if the link is the current user's or root's and the directory the user's. So a
/// link that another user made redirects no mail, and a user's link does not lead into other users' directories.
Result<Fd> follow_link(int at, const std::string& name) {
  struct stat link{}, directory{};
  if (::fstatat(at, name.c_str(), &link, AT_SYMLINK_NOFOLLOW) != 0) return fail_errno("look at");
  Fd fd(::openat(at, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd || ::fstat(fd.get(), &directory) != 0) return fail_errno("follow");
  const uid_t self = ::geteuid();
  if ((link.st_uid != self && link.st_uid != 0) || directory.st_uid != self)
    return fail_errno("a link or directory that is not the recipient's", EPERM);
  return fd;
}

/// Opens a directory step by step below base; with create, makes missing ones. follow: see follow_link().
Result<Fd> open_below(const std::string& base, const std::vector<std::string>& parts, std::size_t count, bool follow,
                      bool create) {
  Fd at(::open(base.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!at) return fail_errno(base);
  std::string shown = base;
  for (std::size_t i = 0; i < count; ++i) {
    shown += "/" + parts[i];
    if (parts[i] == "..") return fail_errno(shown, EINVAL);
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    int fd = ::openat(at.get(), parts[i].c_str(), flags);
    if (fd < 0 && errno == ENOENT && create) {
      if (::mkdirat(at.get(), parts[i].c_str(), 0700) != 0 && errno != EEXIST)
        return fail_errno("create directory " + shown);
      // The new name must survive a power cut, or the mail below it would be lost.
      if (::fsync(at.get()) != 0) return fail_errno("sync directory above " + shown);
      fd = ::openat(at.get(), parts[i].c_str(), flags);
    }
    if (fd < 0 && follow && (errno == ENOTDIR || errno == ELOOP)) {
      auto led = follow_link(at.get(), parts[i]);
      if (!led) return std::unexpected(std::move(led).error().within("open directory " + shown));
      at = *std::move(led);
      continue;
    }
    if (fd < 0) return fail_errno("open directory " + shown);
    at = Fd(fd);
  }
  return at;
}

Result<void> write_out(int fd, std::string_view data) {
  while (!data.empty()) {
    const auto n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("write");
    data.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

/// Copies the content with LF line ends to fd without syncing it; limit 0: none. Returns the number of bytes written.
Result<std::uint64_t> copy(int fd, std::string head, const Message& message, const Content& content, bool mbox,
                           std::uint64_t limit) {
  LineEnds line_ends;
  MboxQuoter quoter;
  std::string plain;
  std::string out = std::move(head);
  std::uint64_t in_total = 0, out_total = 0;
  const auto flush = [&]() -> Result<void> {
    out_total += out.size();
    if (limit != 0 && out_total > limit) return fail_errno("write", EFBIG);
    PEN_TRY(write_out(fd, out));
    out.clear();
    return {};
  };
  for (;;) {
    PEN_TRY_ASSIGN(const std::string_view chunk, content());
    plain.clear();
    if (chunk.empty())
      line_ends.finish(plain);
    else
      line_ends.feed(chunk, plain);
    in_total += chunk.size();
    if (mbox)
      quoter.feed(plain, out);
    else
      out += plain;
    if (chunk.empty()) break;
    PEN_TRY(flush());
  }
  if (in_total != message.size) return fail_errno("content incomplete", EPIPE);
  if (mbox) quoter.finish(out);
  PEN_TRY(flush());
  return out_total;
}

Result<void> sync_file(int fd) {
  if (::fsync(fd) != 0) return fail_errno("fsync");
  return {};
}

/// Moves a file without ever replacing another.
Result<void> move_to(int from, const std::string& name, int to, const std::string& last) {
  if (::renameat2(from, name.c_str(), to, last.c_str(), RENAME_NOREPLACE) == 0) return {};
  // Not all file systems support this.
  if (errno != EINVAL && errno != ENOSYS) return fail_errno("rename maildir file");
  if (::linkat(from, name.c_str(), to, last.c_str(), 0) == 0) {
    (void)::unlinkat(from, name.c_str(), 0);
    return {};
  }
  // Nor do all support hard links; the name belongs to this file alone.
  if (errno != EPERM && errno != EOPNOTSUPP && errno != EMLINK) return fail_errno("link maildir file");
  if (::renameat(from, name.c_str(), to, last.c_str()) != 0) return fail_errno("rename maildir file");
  return {};
}

}  // namespace

mail::DeliveryStatus store_maildir(const Target& target, const Message& message, const Content& content,
                                   const CalledOff& called_off, const SyncDirectory& sync) {
  const auto parts = components(target.path);
  auto box = open_below(target.base, parts, parts.size(), target.follow_links, true);
  if (!box) return trouble(box.error(), "maildir delivery failed");
  struct stat st{};
  if (::fstat(box->get(), &st) != 0 || (st.st_uid != ::geteuid() && !(target.follow_links && target.any_owner)))
    return trouble("4.2.0", fmt::format("maildir delivery failed: {}/{} does not belong to the recipient", target.base,
                                        target.path));
  Fd dirs[2];
  bool made = false;
  const char* const names[] = {"tmp", "new", "cur"};
  for (int i = 0; i < 3; ++i) {
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    int fd = ::openat(box->get(), names[i], flags);
    if (fd < 0 && errno == ENOENT) {
      if (::mkdirat(box->get(), names[i], 0700) != 0 && errno != EEXIST)
        return trouble(Error::from_errno(errno, fmt::format("create directory {}", names[i])),
                       "maildir delivery failed");
      made = true;
      fd = ::openat(box->get(), names[i], flags);
    }
    if (fd < 0)
      return trouble(Error::from_errno(errno, fmt::format("open directory {}", names[i])), "maildir delivery failed");
    Fd dir(fd);
    if (i < 2) dirs[i] = std::move(dir);
  }
  if (made && ::fsync(box->get()) != 0)
    return trouble(Error::from_errno(errno, "sync maildir"), "maildir delivery failed");

  MaildirName name{message.now, static_cast<unsigned>(::getpid()), message.unique, message.random, message.hostname};
  const std::string tmp = name.temporary();
  Fd file(::openat(dirs[0].get(), tmp.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) return trouble(Error::from_errno(errno, "create maildir file " + tmp), "maildir delivery failed");
  const auto give_up = [&](const Error& e) {
    // A leftover in tmp is not mail; readers remove it after 36 hours.
    (void)::unlinkat(dirs[0].get(), tmp.c_str(), 0);
    return trouble(e, "maildir delivery failed");
  };
  if (auto copied = copy(file.get(), message.fields, message, content, false, target.size_limit); !copied)
    return give_up(copied.error());
  if (auto synced = sync_file(file.get()); !synced) return give_up(synced.error());
  if (::fstat(file.get(), &st) != 0) return give_up(Error::from_errno(errno, "fstat"));
  if (called_off()) return give_up(called_off_error());
  const std::string last = name.final(st.st_dev, st.st_ino);
  if (auto moved = move_to(dirs[0].get(), tmp, dirs[1].get(), last); !moved) return give_up(moved.error());
  // Not on stable storage yet: after this failure a retry may deliver twice, but mail is never lost.
  if (auto synced = sync(dirs[1].get()); !synced)
    return trouble(std::move(synced).error().within("sync directory new"), "maildir delivery failed");
  return delivered(target.shown.empty() ? "maildir" : target.shown);
}

namespace {

/// A locked mbox.
class LockedMbox {
 public:
  /// The error: the status of all messages, because none can be appended now.
  static std::expected<std::unique_ptr<LockedMbox>, mail::DeliveryStatus> open(const Target& target,
                                                                               const CalledOff& called_off) {
    auto box = std::unique_ptr<LockedMbox>(new LockedMbox(target));
    if (auto no = box->lock(called_off)) return std::unexpected(*std::move(no));
    return box;
  }

  /// Not on stable storage before sync(). A failed message is removed again, or nothing more can be appended.
  mail::DeliveryStatus append(const MboxDelivery& delivery) {
    if (!usable_) return trouble("4.2.0", what_ + ": a part of another message could not be removed");
    if ((*delivery.called_off)()) return trouble(called_off_error(), what_);
    if (target_.size_limit != 0 && length_ >= target_.size_limit)
      return trouble(Error::from_errno(EFBIG, "mailbox is full"), what_);
    const std::uint64_t room = target_.size_limit == 0 ? 0 : target_.size_limit - length_;
    std::string head = gap_ + delivery.message->from_line + delivery.message->fields;
    auto copied = copy(file_.get(), std::move(head), *delivery.message, *delivery.content, true, room);
    if (!copied) {
      if (cut_back_to(length_)) return trouble(copied.error(), what_);
      return trouble(copied.error(), what_ + " (and the part written could not be removed)");
    }
    length_ += *copied;
    gap_.clear();
    return delivered(target_.shown.empty() ? "mailbox" : target_.shown);
  }

  /// The error: nothing remains appended.
  std::optional<mail::DeliveryStatus> sync() {
    if (length_ == first_length_) return std::nullopt;
    if (auto synced = sync_file(file_.get()); !synced) {
      if (cut_back_to(first_length_)) return trouble(synced.error(), what_);
      return trouble(synced.error(), what_ + " (and the part written could not be removed)");
    }
    if (first_length_ == 0 && ::fsync(dir_.get()) != 0)  // the file may be new
      return trouble(Error::from_errno(errno, "sync directory"), what_);
    return std::nullopt;
  }

 private:
  explicit LockedMbox(const Target& target)
      : target_(target), what_("cannot update mailbox " + target.base + "/" + target.path) {}

  std::optional<mail::DeliveryStatus> lock(const CalledOff& called_off) {
    const auto parts = components(target_.path);
    if (parts.empty() || parts.back() == "..") return trouble("4.3.5", what_ + ": bad path");
    auto dir = open_below(target_.base, parts, parts.size() - 1, target_.follow_links, target_.follow_links);
    if (!dir) return trouble(dir.error(), what_);
    dir_ = *std::move(dir);
    const std::string& name = parts.back();
    if (target_.lock.dotlock) {
      auto locked = dotlock_.take(dir_.get(), name, target_.lock, called_off);
      const bool other = target_.lock.fcntl || target_.lock.flock;
      // We may not make files beside an existing mailbox: the other lock must suffice, as in Postfix.
      if (!locked && !(other && locked.error().is_errno(EACCES))) return trouble(locked.error(), what_);
    }
    // The lock may have become free because the delivery has been called off: no file is made then.
    if (called_off()) return trouble(called_off_error(), what_);
    file_ =
        Fd(::openat(dir_.get(), name.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0600));
    if (!file_) return trouble(Error::from_errno(errno, "open"), what_);
    if (auto locked = lock_file_for_mail(file_.get(), target_.lock, called_off); !locked)
      return trouble(locked.error(), what_);
    return check(name);
  }

  std::optional<mail::DeliveryStatus> check(const std::string& name) {
    struct stat st{}, path_st{};
    if (::fstat(file_.get(), &st) != 0 || ::fstatat(dir_.get(), name.c_str(), &path_st, AT_SYMLINK_NOFOLLOW) != 0)
      return trouble(Error::from_errno(errno, "stat"), what_);
    if (!S_ISREG(st.st_mode)) return trouble("4.2.0", what_ + ": not a regular file");
    if (st.st_nlink != 1) return trouble("4.2.0", what_ + ": the file has more than one link");
    if (st.st_uid != ::geteuid() && !target_.any_owner)
      return trouble("4.2.0", what_ + ": the file does not belong to the recipient");
    if (target_.any_owner && (st.st_mode & 0111)) return trouble("5.7.1", what_ + ": the file is executable");
    if (st.st_dev != path_st.st_dev || st.st_ino != path_st.st_ino)
      return trouble("4.2.0", what_ + ": the file changed while it was locked");
    length_ = first_length_ = static_cast<std::uint64_t>(st.st_size);
    // An earlier message without its end (another program crashed) must not swallow the next one.
    if (length_ == 0) return std::nullopt;
    char end[2] = {'\n', '\n'};
    const auto want = static_cast<std::size_t>(std::min<std::uint64_t>(length_, 2));
    if (::pread(file_.get(), end + 2 - want, want, static_cast<off_t>(length_ - want)) != static_cast<ssize_t>(want))
      return trouble(Error::from_errno(errno, "read"), what_);
    gap_ = end[1] != '\n' ? "\n\n" : end[0] != '\n' ? "\n" : "";
    return std::nullopt;
  }

  bool cut_back_to(std::uint64_t length) {
    usable_ = ::ftruncate(file_.get(), static_cast<off_t>(length)) == 0 && ::fsync(file_.get()) == 0;
    return usable_;
  }

  const Target& target_;
  const std::string what_;
  Fd dir_;
  Dotlock dotlock_;  // declared so that it is released before the directory
  Fd file_;
  std::uint64_t first_length_ = 0, length_ = 0;
  std::string gap_;  // line ends before the next message
  bool usable_ = true;
};

}  // namespace

void store_mbox(const Target& target, std::span<MboxDelivery* const> deliveries) {
  const auto called_off = [&] {
    return std::ranges::all_of(deliveries, [](const auto* each) { return (*each->called_off)(); });
  };
  const auto all_are = [&](const mail::DeliveryStatus& status) {
    for (auto* each : deliveries) each->status = status;
  };
  auto box = LockedMbox::open(target, called_off);
  if (!box) return all_are(box.error());
  for (auto* each : deliveries) each->status = (*box)->append(*each);
  const auto failed = (*box)->sync();
  if (!failed) return;
  for (auto* each : deliveries)
    if (each->status.action == mail::Action::delivered) each->status = *failed;
}

mail::DeliveryStatus store(const Target& target, const Message& message, const Content& content,
                           const CalledOff& called_off) {
  if (target.form == Form::maildir) return store_maildir(target, message, content, called_off, sync_file);
  MboxDelivery delivery{&message, &content, &called_off, {}};
  MboxDelivery* const one[] = {&delivery};
  store_mbox(target, one);
  return std::move(delivery.status);
}

}  // namespace pen::mailbox

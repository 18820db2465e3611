#include "tools/cat_tool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "lib/base/text.h"
#include "lib/mail/queue_id.h"
#include "lib/receive/submission/envelope.h"
#include "lib/suite/service/as_account.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "pencat";
constexpr const char* kMaildrop = "maildrop";
constexpr std::size_t kPiece = 256 * 1024;

/// The name of the file behind a descriptor, for people.
std::string file_behind(int fd) {
  char path[PATH_MAX];
  const ssize_t n = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path, sizeof path);
  return n < 0 ? "a spool file" : std::string(path, static_cast<std::size_t>(n));
}

MessageSource of_queue(ipc::queue::Content& content, const std::vector<Fd>& fds) {
  MessageSource source;
  source.envelope = std::move(content.envelope);
  source.name = source.envelope.queue_id;
  source.place = name_of(content.place);
  source.size = source.envelope.body.size;
  if (fds.empty()) {
    source.read = [text = content.inline_body](std::uint64_t from, std::size_t most) {
      return Result<std::string>(text.substr(std::min<std::size_t>(from, text.size()), most));
    };
    return source;
  }
  source.content += " in " + file_behind(fds[0].get());
  source.read = [fd = fds[0].get(), offset = content.body_offset](std::uint64_t from,
                                                                  std::size_t most) -> Result<std::string> {
    std::string piece(most, '\0');
    const ssize_t n = ::pread(fd, piece.data(), most, static_cast<off_t>(offset + from));
    if (n < 0) return fail_errno("read");
    piece.resize(static_cast<std::size_t>(n));
    return piece;
  };
  return source;
}

/// Copies standard input that is no file, such as a pipe, to a file without a name; empty: it is a file. Only input
/// that begins like a submitted message is copied.
Fd spool_standard_input() {
  struct stat st{};
  if (::fstat(STDIN_FILENO, &st) != 0) die(kProgram, EX_IOERR, Error::from_errno(errno, "standard input").message());
  if (S_ISREG(st.st_mode)) return {};
  const char* wanted = std::getenv("TMPDIR");
  std::string path = std::string(wanted != nullptr && *wanted != '\0' ? wanted : "/tmp") + "/pencat.XXXXXX";
  Fd file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file) die(kProgram, EX_CANTCREAT, Error::from_errno(errno, "create " + path).message());
  ::unlink(path.c_str());
  std::string piece(kPiece, '\0');
  std::string prefix;
  for (;;) {
    const ssize_t n = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) die(kProgram, EX_IOERR, Error::from_errno(errno, "standard input").message());
    if (n == 0) return file;
    std::string_view rest(piece.data(), static_cast<std::size_t>(n));
    if (prefix.size() < submission::kPrefixSize) {
      prefix += rest.substr(0, submission::kPrefixSize - prefix.size());
      if (prefix.size() == submission::kPrefixSize)
        if (const auto head = submission::head_size(prefix); !head)
          die(kProgram, EX_DATAERR, "standard input: " + head.error().message());
    }
    while (!rest.empty()) {
      const ssize_t written = ::write(file.get(), rest.data(), rest.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) die(kProgram, EX_IOERR, Error::from_errno(errno, "write " + path).message());
      rest.remove_prefix(static_cast<std::size_t>(written));
    }
  }
}

}  // namespace

std::expected<CatTool::Options, service::Ending> CatTool::read(int argc, const char* const* argv) {
  using service::set;
  Options o;
  MessageParts& parts = o.parts;
  const auto from_byte = [&parts](const service::Given& given) -> std::string {
    const auto offset = parse_unsigned(given.value);
    if (!offset) return "-s: a number of bytes is expected, not " + readable(given.value);
    parts.start = *offset;
    return {};
  };
  const service::CommandLine line{
      .program = kProgram,
      .usage = {"pencat [-c DIR] [-bdefhjoqr] [-s OFFSET] [ID | FILE ...]"},
      .about =
          "Shows messages in the queue of a Penstock instance, and files of its maildrop and "
          "corrupt directories. Without ID and FILE: the file on standard input. A word that "
          "could be an ID is a FILE where there is no such message; ./ID always.",
      .options = {
          {"-e", "envelope", set(parts.envelope)},
          {"-h", "header", set(parts.header)},
          {"-b", "body, with the empty line before it\nnone of these: all three", set(parts.body)},
          {"-f", "the id or the file's name before each line", set(parts.names)},
          {"-j, --json", "the envelope of each message as a line of JSON", set(parts.json)},
          {"-q", "every word is an ID, never a file", set(o.ids_only)},
          service::directory_option(o.directory),
          {"-v", "accepted, and changes nothing", service::accepted()},
          {"-o", "before each line of the content where it begins there, in bytes", set(parts.offsets)},
          {"-s OFFSET", "only the content from that byte on", from_byte},
          {"-r", "changes nothing: no part of a message is elsewhere than in its place", service::accepted()},
          {"-d", "before each line the type of record that it is in a queue file of Postfix", set(parts.types)}}};
  auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  o.words = *std::move(words);
  if (!parts.envelope && !parts.header && !parts.body) parts.envelope = parts.header = parts.body = true;
  return o;
}

int CatTool::run() {
  if (options_.words.empty()) return show_standard_input();
  for (const std::string& word : options_.words) {
    const bool is_id = mail::is_queue_id(word);
    if (options_.ids_only || is_id) {  // an id has no slash
      if (!is_id) die(kProgram, EX_USAGE, "not a queue id: " + readable(word));
      if (!config_) config_.emplace(load_instance(kProgram, options_.directory));
      ids_.push_back(word);
      if (ids_.size() >= ipc::queue::kMaxIds) show_ids();
      continue;
    }
    show_ids();
    const Shown shown = show_path(word, word);
    if (shown == Shown::no) die(kProgram, EX_NOINPUT, "neither a queue id nor a file: " + readable(word));
    if (shown == Shown::damaged) status_ = EX_DATAERR;
  }
  show_ids();
  return status_;
}

int CatTool::show_standard_input() {
  const auto spooled = spool_standard_input();
  const int fd = spooled ? spooled.get() : STDIN_FILENO;
  return show_file("standard input", fd) ? EX_OK : EX_DATAERR;
}

bool CatTool::show_file(const std::string& name, int fd, const std::string& place) {
  using Found = submission::DropView::Found;
  auto view = submission::DropView::open(fd, place == kMaildrop ? Found::in_maildrop : Found::elsewhere);
  if (!view) {
    complain_of(kProgram, name, view.error().message());
    return false;
  }
  MessageSource source;
  source.name = name;
  source.place = place;
  source.has_envelope = view->submission().has_value();
  if (source.has_envelope) {
    submission::Submission given = *view->submission();
    source.full_name = std::move(given.full_name);
    source.gateway = given.gateway;
    source.envelope = submission::envelope_of(std::move(given));
  }
  source.fault = view->fault();
  source.size = view->content_size();
  source.read = [&](std::uint64_t from, std::size_t most) { return view->read(from, most); };
  const bool whole = show_message(kProgram, source, options_.parts, print);
  if (view->fault().empty()) return whole;
  complain_of(kProgram, name, view->fault());
  return false;
}

CatTool::Shown CatTool::show_path(const std::string& name, const std::string& path, int flags,
                                  const std::string& place) {
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
  if (fd.get() < 0) {
    if (errno == ENOENT) return Shown::no;
    die(kProgram, errno == EACCES ? EX_NOPERM : EX_NOINPUT,
        Error::from_errno(errno, "open " + readable(path)).message());
  }
  return show_file(name, fd.get(), place) ? Shown::yes : Shown::damaged;
}

void CatTool::show_ids() {
  if (ids_.empty()) return;
  // Messages move from maildrop to the queue: so look for them in maildrop first.
  std::vector<std::string> missing;
  for (const std::string& id : std::exchange(ids_, {})) {
    const Shown shown = show_dropped(id);
    if (shown == Shown::no) missing.push_back(id);
    if (shown == Shown::damaged) status_ = EX_DATAERR;
  }
  if (missing.empty()) return;
  if (!client_) client_.emplace(kProgram, *config_);
  if (!show_queued(missing)) status_ = EX_DATAERR;
  std::fflush(stdout);
  for (const auto& id : missing) {
    const Shown shown = options_.ids_only ? Shown::no : show_path(id, id);
    if (shown == Shown::no) std::fprintf(stderr, "%s: %s: no such message in the queue\n", kProgram, id.c_str());
    if (shown != Shown::yes) status_ = EX_DATAERR;
  }
}

CatTool::Shown CatTool::show_dropped(const std::string& id) {
  // mail_owner chose the names in there: root must not read what mail_owner could not.
  const service::AsAccount owner(service::mail_owner(config_->settings()).value_or(service::Account{}));
  const std::string& queue = config_->settings().queue_directory;
  for (const char* place : {kMaildrop, "corrupt"})
    if (const Shown shown = show_path(id, queue + "/" + place + "/" + id, O_NOFOLLOW, place); shown != Shown::no)
      return shown;
  return Shown::no;
}

bool CatTool::show_queued(std::vector<std::string>& ids) {
  using ipc::queue::Outcome;
  bool whole = true;
  std::string without_content;              // a message that has lost its content
  std::vector<mail::Recipient> recipients;  // for a message with so many that they come in parts
  const auto done = client_->ask(ipc::queue::Show{1, {}, ids}, [&](ipc::queue::FromQmgr& m, auto& fds) {
    if (const auto* damaged = std::get_if<ipc::queue::Entry>(&m)) {
      complain_of(kProgram, damaged->queue_id, damaged->fault);
      whole = false;
      without_content = damaged->queue_id;
      recipients.clear();
      std::erase(ids, damaged->queue_id);
      return;
    }
    auto* content = std::get_if<ipc::queue::Content>(&m);
    if (content == nullptr) return;
    auto& part = content->envelope.recipients;
    std::move(part.begin(), part.end(), std::back_inserter(recipients));
    if (content->more) return;
    part = std::exchange(recipients, {});
    const MessageSource source = of_queue(*content, fds);
    MessageParts there = options_.parts;
    if (source.name == without_content) there.header = there.body = false;
    if (!show_message(kProgram, source, there, print)) whole = false;
    std::erase(ids, source.name);
  });
  if (done.outcome == Outcome::denied)
    die(kProgram, EX_NOPERM, "only root may do that, and the owner of a mail system without root");
  if (done.outcome == Outcome::failed) die(kProgram, EX_SOFTWARE, "failed: " + done.text);
  return whole;
}

}  // namespace pen::tools

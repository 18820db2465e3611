/// pencat: shows messages, in the queue or in files that local submission left: envelope, header, body. Manual:
/// man/pencat.1.
#include <fcntl.h>
#include <fmt/format.h>
#include <getopt.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/text.h"
#include "lib/mail/header.h"
#include "lib/mail/queue_id.h"
#include "lib/service/as_account.h"
#include "lib/submission/drop_view.h"
#include "lib/submission/envelope.h"
#include "tools/queue_client.h"

namespace {

using namespace pen;
using namespace pen::tools;

constexpr const char* kProgram = "pencat";
constexpr const char* kHelp =
    "usage: pencat [-c DIR] [-befhq] [ID | FILE ...]\n"
    "\n"
    "Shows messages in the queue of a Penstock instance, and files of its maildrop and corrupt\n"
    "directories. Without ID and FILE: the file on standard input. A word that could be an ID is "
    "a\n"
    "FILE where there is no such message; ./ID always.\n"
    "  -e       envelope\n"
    "  -h       header\n"
    "  -b       body, with the empty line before it\n"
    "           none of these: all three\n"
    "  -f       the id or the file's name before each line\n"
    "  -q       every word is an ID, never a file\n"
    "  -c DIR   the directory of main.cf (default: MAIL_CONFIG, else /etc/penstock)\n"
    "  -v       accepted, and changes nothing\n"
    "  -d, -o, -r, -s  refused: messages are no files of records here\n"
    "  --help, --version\n";

struct Parts {
  bool envelope = false, header = false, body = false;
  bool names = false;  // -f
};

/// Standard output: lines end in LF, as people read them, and begin with a name if so wanted.
class Output {
 public:
  explicit Output(std::string prefix) : prefix_(std::move(prefix)) {}
  void put(std::string_view text) {
    std::string out;
    out.reserve(text.size() + prefix_.size() + 1);
    for (const char c : text) {
      if (at_start_) out += prefix_;
      at_start_ = false;
      if (held_ && c != '\n') out += '\r';
      held_ = c == '\r';
      if (!held_) out += c;
      at_start_ = c == '\n';
    }
    print(out);
  }
  /// What comes next begins a line.
  void end() {
    if (held_) print("\r");
    held_ = false;
    if (!at_start_) print("\n");
    at_start_ = true;
  }

 private:
  std::string prefix_;
  bool at_start_ = true;
  bool held_ = false;  // a CR that may belong to a line end
};

/// Where a message is read from.
struct Source {
  std::string name;          // as it was asked for
  mail::Envelope envelope;   // of a message in the queue with its body facts
  bool has_envelope = true;  // it could be read
  std::string state;         // where it is, or what is not right with it; may be empty
  // of a submission: what is not in the envelope
  std::string full_name;
  bool gateway = false;
  std::uint64_t size = 0;
  std::string content = "its content";  // what to call it when it is damaged
  /// At most that many bytes of the content.
  std::function<Result<std::string>(std::uint64_t from, std::size_t most)> read;
};
constexpr std::size_t kPiece = 256 * 1024;

/// To standard error, after what was shown so far.
void complain(const std::string& name, const std::string& what) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s: %s\n", kProgram, printable(name).c_str(), printable(what).c_str());
}

/// What cannot be read of it, which ends it; empty: it is whole.
std::string print_content(Output& out, const Source& source, std::uint64_t from,
                          std::uint64_t end) {
  std::string fault;
  while (from < end && fault.empty()) {
    const auto piece = source.read(from, std::min<std::uint64_t>(kPiece, end - from));
    if (!piece) {
      fault = source.content + " cannot be read: " + piece.error().message();
    } else if (piece->empty()) {
      fault =
          fmt::format("{} is cut short, after {} of {} bytes", source.content, from, source.size);
    } else {
      out.put(*piece);
      from += piece->size();
    }
  }
  out.end();
  return fault;
}

std::string notify_words(std::uint8_t bits) {
  if ((bits & mail::notify::kNever) != 0) return "never";
  std::string out;
  for (const auto& [bit, word] :
       {std::pair{mail::notify::kSuccess, "success"}, std::pair{mail::notify::kFailure, "failure"},
        std::pair{mail::notify::kDelay, "delay"}})
    if ((bits & bit) != 0) out += (out.empty() ? "" : ",") + std::string(word);
  return out;
}

void print_envelope(Output& out, const Source& source) {
  const mail::Envelope& e = source.envelope;
  const auto line = [&](const char* name, const std::string& value) {
    if (!value.empty()) out.put(std::string(name) + ": " + printable(value) + "\n");
  };
  line("state", source.state);
  line("message_size", std::to_string(source.size));
  if (!source.has_envelope) return;
  line("arrival_time", rfc5322_date(e.arrival));
  out.put("sender: " + printable(e.sender) + "\n");
  line("envelope_id", e.envid);
  line("ret", e.ret == mail::Ret::full ? "full" : e.ret == mail::Ret::headers ? "hdrs" : "");
  line("body_type", e.body_type == mail::BodyType::seven_bit        ? "7BIT"
                    : e.body_type == mail::BodyType::eight_bit_mime ? "8BITMIME"
                    : e.body_type == mail::BodyType::binary_mime    ? "BINARYMIME"
                                                                    : "");
  if (e.smtputf8) line("smtputf8", "yes");
  if (e.requiretls != mail::RequireTls::unspecified)
    line("requiretls", e.requiretls == mail::RequireTls::yes ? "yes" : "no");
  line("transport", e.transport);
  line("filter", e.filter);
  line("full_name", source.full_name);
  if (source.gateway) line("gateway", "yes");
  if (e.purpose == mail::Purpose::probe) line("probe", "yes");
  if (e.purpose == mail::Purpose::traced) line("traced", "yes");
  if (!e.client.address.empty()) line("client", e.client.name + "[" + e.client.address + "]");
  line("client_helo", e.client.helo);
  line("client_protocol", e.client.protocol);
  line("sasl_method", e.client.sasl_method);
  line("sasl_username", e.client.sasl_username);
  line("sasl_sender", e.client.sasl_sender);
  for (const auto& r : e.recipients) {
    line("dsn_orig_rcpt", r.orcpt);
    line("notify", notify_words(r.notify));
    out.put("original_recipient: " + printable(r.shown_original()) + "\n");
    out.put("recipient: " + printable(r.address) + "\n");
  }
}

/// How much of the content is header: the empty line after it belongs to the body, as with postcat. Errors: as read().
Result<std::uint64_t> header_size_of(const Source& source) {
  using Line = mail::HeaderScanner::Line;
  std::string held;  // the beginning of a line
  bool first = true, decided = false;
  for (std::uint64_t at = 0, line_at = 0; at < source.size;) {
    PEN_TRY_ASSIGN(const std::string piece, source.read(at, kPiece));
    if (piece.empty()) break;
    for (const char c : piece) {
      ++at;
      if (c != '\n' && !decided) held += c;
      const bool whole = c == '\n';
      if (!decided && (whole || held.size() >= mail::HeaderScanner::kDecide)) {
        if (whole && held.ends_with('\r')) held.pop_back();
        const Line kind = mail::HeaderScanner::classify(held, whole, std::exchange(first, false));
        if (kind == Line::separator || kind == Line::body) return line_at;
        decided = true;
      }
      if (!whole) continue;
      held.clear();
      decided = false;
      line_at = at;
    }
  }
  return source.size;
}

/// Whether all of it could be shown; if not, it was said why.
bool show(const Source& source, const Parts& parts) {
  std::string fault;
  Output out(parts.names ? source.name + ": " : "");
  const auto mark = [&](const char* what) {
    if (parts.envelope) out.put(fmt::format("*** {} {} ***\n", what, source.name));
  };
  mark("ENVELOPE RECORDS");
  if (parts.envelope) print_envelope(out, source);
  if (parts.header || parts.body) {
    mark("MESSAGE CONTENTS");
    std::uint64_t from = 0, end = source.size;
    if (!parts.header || !parts.body) {
      const auto split = header_size_of(source);
      if (split)
        (parts.header ? end : from) = *split;
      else
        fault = source.content + " cannot be read: " + split.error().message();
    }
    if (fault.empty()) fault = print_content(out, source, from, end);
  }
  mark("HEADER EXTRACTED");
  mark("MESSAGE FILE END");
  if (!fault.empty()) complain(source.name, fault);
  return fault.empty();
}

using Found = submission::DropView::Found;

/// A file that local submission left. Returns whether it is whole.
bool show_file(const std::string& name, int fd, const Parts& parts,
               Found where = Found::elsewhere) {
  auto view = submission::DropView::open(fd, where);
  if (!view) {
    complain(name, view.error().message());
    return false;
  }
  Source source;
  source.name = name;
  source.has_envelope = view->submission().has_value();
  if (source.has_envelope) {
    submission::Submission given = *view->submission();
    source.full_name = std::move(given.full_name);
    source.gateway = given.gateway;
    source.envelope = submission::envelope_of(std::move(given));
  }
  source.state = view->fault().empty() ? "" : "not whole: " + view->fault();
  source.size = view->content_size();
  source.read = [&](std::uint64_t from, std::size_t most) { return view->read(from, most); };
  const bool whole = show(source, parts);
  if (view->fault().empty()) return whole;
  complain(name, view->fault());
  return false;
}

/// What became of a word.
enum class Shown { yes, damaged, no };

Shown show_path(const std::string& name, const std::string& path, const Parts& parts, int flags = 0,
                Found where = Found::elsewhere) {
  const async::Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | flags));
  if (fd.get() < 0) {
    if (errno == ENOENT) return Shown::no;
    die(kProgram, errno == EACCES ? EX_NOPERM : EX_NOINPUT,
        Error::from_errno(errno, "open " + printable(path)).message());
  }
  return show_file(name, fd.get(), parts, where) ? Shown::yes : Shown::damaged;
}

/// The file behind a descriptor, for people.
std::string file_behind(int fd) {
  char path[PATH_MAX];
  const ssize_t n = ::readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path, sizeof path);
  return n < 0 ? "a spool file" : std::string(path, static_cast<std::size_t>(n));
}

Source of_queue(ipc::queue::Content& content, const std::vector<async::Fd>& fds) {
  Source source;
  source.envelope = std::move(content.envelope);
  source.name = source.envelope.queue_id;
  source.state = name_of(content.place);
  source.size = source.envelope.body.size;
  if (fds.empty()) {
    source.read = [text = content.inline_body](std::uint64_t from, std::size_t most) {
      return Result<std::string>(text.substr(std::min<std::size_t>(from, text.size()), most));
    };
    return source;
  }
  source.content += " in " + file_behind(fds[0].get());
  source.read = [fd = fds[0].get(), offset = content.body_offset](
                    std::uint64_t from, std::size_t most) -> Result<std::string> {
    std::string piece(most, '\0');
    const ssize_t n = ::pread(fd, piece.data(), most, static_cast<off_t>(offset + from));
    if (n < 0) return fail_errno("read");
    piece.resize(static_cast<std::size_t>(n));
    return piece;
  };
  return source;
}

/// Those that are there, in their order; takes them out of `ids`. Whether all of them are whole; if not, it was said why.
bool show_queued(QueueClient& client, std::vector<std::string>& ids, const Parts& parts) {
  using ipc::queue::Outcome;
  bool whole = true;
  std::string without_content;              // a message of which only the envelope is left
  std::vector<mail::Recipient> recipients;  // of a message with so many that they come in parts
  const auto done = client.ask(
      ipc::queue::Show{1, {}, ids}, [&](ipc::queue::FromQmgr& m, std::vector<async::Fd>& fds) {
        if (const auto* damaged = std::get_if<ipc::queue::Entry>(&m)) {
          complain(damaged->queue_id, damaged->fault);
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
        const Source source = of_queue(*content, fds);
        Parts there = parts;
        if (source.name == without_content) there.header = there.body = false;
        if (!show(source, there)) whole = false;
        std::erase(ids, source.name);
      });
  if (done.outcome == Outcome::denied)
    die(kProgram, EX_NOPERM, "only root and the mail owner may do that");
  if (done.outcome == Outcome::failed) die(kProgram, EX_SOFTWARE, "failed: " + done.text);
  return whole;
}

/// Standard input that is no file, such as a pipe, as a file without a name; none: it is a file. The beginning must be
/// that of a submitted message: nothing else is copied.
async::Fd spool_standard_input() {
  struct stat st{};
  if (::fstat(STDIN_FILENO, &st) != 0)
    die(kProgram, EX_IOERR, Error::from_errno(errno, "standard input").message());
  if (S_ISREG(st.st_mode)) return {};
  const char* wanted = std::getenv("TMPDIR");
  std::string path =
      std::string(wanted != nullptr && *wanted != '\0' ? wanted : "/tmp") + "/pencat.XXXXXX";
  async::Fd file(::mkostemp(path.data(), O_CLOEXEC));
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

int main(int argc, char** argv) {
  static constexpr option kLong[] = {{"help", no_argument, nullptr, 1},
                                     {"version", no_argument, nullptr, 2},
                                     {nullptr, 0, nullptr, 0}};
  std::string directory;
  Parts parts;
  bool ids_only = false;
  for (int c; (c = ::getopt_long(argc, argv, "bc:defhoqrs:v", kLong, nullptr)) != -1;) {
    switch (c) {
      case 1:
        std::fputs(kHelp, stdout);
        return 0;
      case 2:
        std::printf("pencat (Penstock) %s\n", PEN_VERSION);
        return 0;
      case 'c':
        directory = optarg;
        break;
      case 'e':
        parts.envelope = true;
        break;
      case 'f':
        parts.names = true;
        break;
      case 'h':
        parts.header = true;
        break;
      case 'b':
        parts.body = true;
        break;
      case 'q':
        ids_only = true;
        break;
      case 'v':
        break;
      case 'd':
      case 'o':
      case 'r':
      case 's':
        die(kProgram, EX_USAGE,
            std::string("-") + static_cast<char>(c) +
                ": messages are no files of records here; the records of the queue log are shown "
                "by penqueue --log -v");
      default:
        std::fputs(kHelp, stderr);
        return EX_USAGE;
    }
  }
  if (!parts.envelope && !parts.header && !parts.body)
    parts.envelope = parts.header = parts.body = true;
  if (optind == argc) {
    const async::Fd spooled = spool_standard_input();
    if (!show_file("standard input", spooled ? spooled.get() : STDIN_FILENO, parts))
      return EX_DATAERR;
    return std::fflush(stdout) == 0 ? 0 : EX_IOERR;
  }
  int status = 0;
  std::vector<std::string> ids;
  std::optional<config::Config> config;
  std::optional<QueueClient> client;
  const auto show_ids = [&] {
    if (ids.empty()) return;
    // A message goes from maildrop to the queue: so whoever is not there yet is looked for here first.
    std::vector<std::string> missing;
    for (const std::string& id : ids) {
      Shown shown = Shown::no;
      for (const auto& [folder, where] :
           {std::pair{"/maildrop/", Found::in_maildrop}, std::pair{"/corrupt/", Found::elsewhere}})
        if (shown == Shown::no) {
          // Names in there are mail_owner's making: root reads nothing that mail_owner could not.
          const service::AsAccount owner(
              service::mail_owner(config->settings()).value_or(service::Account{}));
          shown = show_path(id, config->settings().queue_directory + folder + id, parts, O_NOFOLLOW,
                            where);
        }
      if (shown == Shown::no) missing.push_back(id);
      if (shown == Shown::damaged) status = EX_DATAERR;
    }
    ids.clear();
    if (missing.empty()) return;
    if (!client) client.emplace(kProgram, *config);
    if (!show_queued(*client, missing, parts)) status = EX_DATAERR;
    std::fflush(stdout);
    for (const auto& id : missing) {
      const Shown shown = ids_only ? Shown::no : show_path(id, id, parts);
      if (shown == Shown::no)
        std::fprintf(stderr, "%s: %s: no such message in the queue\n", kProgram, id.c_str());
      if (shown != Shown::yes) status = EX_DATAERR;
    }
  };
  for (int i = optind; i < argc; ++i) {
    const std::string word = argv[i];
    const bool is_id = mail::is_queue_id(word);
    if (ids_only || is_id) {  // an id has no slash
      if (!is_id) die(kProgram, EX_USAGE, "not a queue id: " + printable(word));
      if (!config) config.emplace(load_instance(kProgram, directory));
      ids.push_back(word);
      if (ids.size() >= ipc::queue::kMaxIds) show_ids();
      continue;
    }
    show_ids();
    const Shown shown = show_path(word, word, parts);
    if (shown == Shown::no)
      die(kProgram, EX_NOINPUT, "neither a queue id nor a file: " + printable(word));
    if (shown == Shown::damaged) status = EX_DATAERR;
  }
  show_ids();
  return std::fflush(stdout) == 0 ? status : EX_IOERR;
}

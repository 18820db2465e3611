#include "tools/kick_tool.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lib/base/fd.h"
#include "lib/base/text.h"
#include "lib/suite/ipc/queue.h"
#include "tools/output.h"
#include "tools/queue_client.h"

namespace pen::tools {
namespace {

constexpr const char* kProgram = "penkick";

/// When a client connects, master starts the listener, which looks for work then. errno; 0: it is done.
int connect_to(const std::string& path) {
  sockaddr_un to{};
  if (path.size() >= sizeof to.sun_path) return ENAMETOOLONG;
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, path.c_str(), path.size() + 1);
  // A full queue of connections is not waited for: the service has been woken.
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return errno;
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0 || errno == EAGAIN) return 0;
  return errno;
}

}  // namespace

std::expected<KickTool::Options, service::Ending> KickTool::read(int argc, const char* const* argv) {
  Options o;
  const service::CommandLine line{
      .program = kProgram,
      .usage = {"penkick [-c DIR] [-v] CLASS SERVICE REQUEST"},
      .about =
          "Wakes a service, as postkick does. CLASS is public or private. Of requests, A and D to public qmgr have all "
          "mail that waits tried now; any other only wakes the service, which then sees by itself what is to be done.",
      .options = {service::directory_option(o.directory),
                  {"-v", "accepted, and changes nothing", service::accepted()}}};
  auto words = line.read(argc, argv);
  if (!words) return std::unexpected(words.error());
  if (words->size() != 3) return std::unexpected(line.misuse("a class, a service and a request are needed"));
  o.service_class = (*words)[0];
  o.service = (*words)[1];
  o.request = (*words)[2];
  if (o.service_class != "public" && o.service_class != "private")
    return std::unexpected(line.misuse("no class: " + printable(o.service_class) + " (public, private)"));
  if (o.service.empty() || o.service.starts_with('.') || o.service.contains('/'))
    return std::unexpected(line.misuse("no name of a service: " + printable(o.service)));
  return o;
}

int KickTool::run() {
  const config::Config config = load_instance(kProgram, options_.directory);
  const bool of_queue = options_.service_class == "public" && options_.service == "qmgr";
  if (of_queue && options_.request.find_first_of("AD") != std::string::npos) {
    const auto done = QueueClient(kProgram, config)
                          .ask(ipc::queue::Act{.request = 1,
                                               .verb = ipc::queue::Verb::flush,
                                               .all = true,
                                               .site = {},
                                               .queue_ids = {},
                                               .filter = {}},
                               [](auto&, auto&) {});
    expect_ok(kProgram, done);
    return EX_OK;
  }
  const std::string name = options_.service_class + "/" + options_.service;
  const int error = connect_to(config.settings().queue_directory + "/" + name);
  if (error == 0) return EX_OK;
  const bool down = error == ENOENT || error == ECONNREFUSED;
  die(kProgram, error == EACCES || error == EPERM ? EX_NOPERM : EX_UNAVAILABLE,
      "cannot reach the service " + printable(name) + (down ? " (is the mail system running?): " : ": ") +
          Error::from_errno(error).message());
}

}  // namespace pen::tools

#pragma once
/// penstock: makes, starts, stops and looks at an instance. Manual: man/penstock.1.
///
/// Use:     return service::run_tool<InstanceTool>(argc, argv);
/// Parts:   instance.h makes one, instance_control.h starts and stops it, instance_status.h, check.h and doctor.h look
///          at it; snapshot.h and restore.h copy it; multi_tool.h has what concerns several.
#include <expected>
#include <optional>
#include <string>

#include "lib/suite/service/command_line.h"
#include "tools/config_import.h"
#include "tools/doctor.h"
#include "tools/explain.h"
#include "tools/history.h"
#include "tools/instance.h"
#include "tools/multi_tool.h"
#include "tools/queue_export.h"
#include "tools/queue_import.h"
#include "tools/restore.h"
#include "tools/tls_tool.h"

namespace pen::tools {

class InstanceTool {
 public:
  enum class Command {
    init,
    start,
    start_foreground,
    stop,
    abort,
    reload,
    upgrade,
    flush,
    log_rotate,
    status,
    check,
    import_from,
    export_queue,
    list,
    multi,
    doctor,
    snapshot,
    restore,
    explain,
    history,
    health,
    tls,
    nothing,  // commands of postfix(1) with no work here
    non_bdb
  };
  struct Options {
    std::string directory;  // of main.cf, as given
    Command command = Command::status;
    NewInstance instance;  // init
    bool json = false;     // status, check
    bool dns = true;       // check
    ConfigImport::Options import_config;
    QueueImport::Options import_queue;
    QueueExport::Options export_queue;
    MultiTool::Options multi;  // list, multi, and any command with -a, -g, -i or -x
    bool several = false;      // one of these was given
    Doctor::Options doctor;
    std::string snapshot;  // directory
    Restore::Options restore;
    ExplainOptions explain;
    HistoryOptions history;
    TlsTool::Options tls;
    std::string non_bdb;  // its subcommand
  };
  static std::expected<Options, service::Ending> read(int argc, const char* const* argv);

  explicit InstanceTool(Options options) : options_(std::move(options)) {}
  int run();

 private:
  int init();
  int non_bdb() const;
  /// nullopt: the command needs main.cf.
  std::optional<int> run_without_configuration(const std::string& directory);
  int run_with(const config::Config& config);
  Options options_;
};

}  // namespace pen::tools

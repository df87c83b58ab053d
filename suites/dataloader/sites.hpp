#pragma once

#include "harness/recorder.hpp"

/// Where the dataloader scenario records events. Tags are batch numbers (counted over the whole trial) unless said otherwise.
namespace misfire::dataloader::site {

inline constexpr Site epoch{1, "epoch", Unit::none, "span on the consumer: one pass over the data; tag: epoch"};
inline constexpr Site wait{2, "wait", Unit::none, "span on the consumer: blocked until the next batch is there"};
inline constexpr Site step{3, "step", Unit::none,
                           "span on the consumer: handing a batch to the device, up to its completion when it must"};
inline constexpr Site device{4, "device", Unit::none, "span on the device's own thread: the arithmetic of one training step"};
inline constexpr Site load{5, "load", Unit::none,
                           "span where a batch is made (worker process, worker thread, or the consumer itself)"};
inline constexpr Site delivered{6, "delivered", Unit::count,
                                "sample on the consumer: index of one sample of the batch delivered"};
inline constexpr Site held{7, "held", Unit::count,
                           "sample on the consumer: finished batches that order kept back while it waited for this one"};
inline constexpr Site made_by{8, "made_by", Unit::count,
                              "sample on the consumer: worker that made the batch; -1 for the consumer itself"};
inline constexpr Site worker_start{9, "worker_start", Unit::none, "mark in a worker when it is ready to load; tag: worker"};
inline constexpr Site worker_stop{10, "worker_stop", Unit::none, "mark in a worker about to exit; tag: worker"};
inline constexpr Site worker_died{11, "worker_died", Unit::count,
                                  "sample on the consumer: signal that ended a worker (0: it exited); tag: worker"};
inline constexpr Site read{12, "read", Unit::none, "span where a sample's bytes are read; tag: sample"};
inline constexpr Site bytes{13, "bytes", Unit::bytes, "sample where a batch is made: compressed bytes read for it"};
inline constexpr Site prepare_epoch{14, "prepare_epoch", Unit::none,
                                    "span on the consumer: index built, workers started; tag: epoch"};
inline constexpr Site bad_sample{15, "bad_sample", Unit::count,
                                 "sample where a batch is made: index of a sample that could not be decoded"};

inline constexpr Site delivered_batch{16, "delivered_batch", Unit::none,
                                      "mark on the consumer: a batch is handed out; gives its samples their time"};

inline constexpr Site worker_died_at{17, "worker_died_at", Unit::none,
                                     "mark on the consumer: a worker's death was noticed; tag: worker"};
inline constexpr Site shm_at_fault{18, "shm_at_fault", Unit::fraction,
                                   "sample in a worker that SIGBUS ends: used part of /dev/shm at that moment"};

inline constexpr Site all[] = {epoch, wait,          step,         device,          load,           delivered,
                               held,  made_by,       worker_start, worker_stop,     worker_died,    read,
                               bytes, prepare_epoch, bad_sample,   delivered_batch, worker_died_at, shm_at_fault};

}  // namespace misfire::dataloader::site

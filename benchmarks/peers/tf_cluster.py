"""A TensorFlow cluster of processes on loopback. Its program is the chief.

As a program it is one server: tf_cluster.py ps 0 '{"worker": [...], "ps": [...]}'
"""
import json
import os
import socket
import subprocess
import sys


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Cluster:
    """Workers and parameter servers as child processes."""

    def __init__(self, workers, ps):
        addresses = [f"127.0.0.1:{p}" for p in free_ports(workers + ps + 1)]
        self.spec = {"chief": addresses[:1], "worker": addresses[1:1 + workers],
                     "ps": addresses[1 + workers:]}
        env = dict(os.environ, GRPC_FAIL_FAST="use_caller", TF_CPP_MIN_LOG_LEVEL="2")
        self.processes = [
            subprocess.Popen([sys.executable, __file__, job, str(index), json.dumps(self.spec)],
                             env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for job in ("ps", "worker") for index in range(len(self.spec[job]))]

    def resolver(self):
        import tensorflow as tf
        return tf.distribute.cluster_resolver.SimpleClusterResolver(
            tf.train.ClusterSpec(self.spec), task_type="chief", task_id=0, rpc_layer="grpc")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()


def serve(job, index, spec):
    import tensorflow as tf
    config = tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=1,
        # Transfers that wait hold threads between ops: with too few, the servers wait for ever.
        inter_op_parallelism_threads=len(spec["worker"]) + 1)
    tf.distribute.Server(tf.train.ClusterSpec(spec), job_name=job, task_index=index,
                         protocol="grpc", config=config, start=True).join()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3]))
